#include "storage/checksum.h"

#include <gtest/gtest.h>
#include <xxhash.h>

#include <cstring>
#include <span>
#include <vector>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace holdfast::storage {
namespace {

std::vector<std::byte> some_bytes(size_t count) {
  std::vector<std::byte> bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i * i);
  return bytes;
}

TEST(Checksum, IsXxh3OfAnyLength) {
  const auto all = some_bytes(5000);
  for (const size_t size : {0, 1, 16, 17, 128, 240, 241, 1024, 5000}) {
    const auto bytes = std::span(all).first(size);
    EXPECT_EQ(checksum_64(bytes), XXH3_64bits(bytes.data(), size)) << size;
    XXH128_canonical_t expected;
    XXH128_canonicalFromHash(&expected, XXH3_128bits(bytes.data(), size));
    EXPECT_EQ(std::memcmp(checksum_128(bytes).data(), expected.digest, sizeof expected.digest), 0) << size;
    RunningChecksum running;
    running.add(bytes.first(size / 3));
    running.add(bytes.subspan(size / 3));
    EXPECT_EQ(running.digest(), checksum_128(bytes)) << size;
  }
}

#if defined(__x86_64__)
// The parts of the processor's state that are in use (XGETBV with ECX = 1), 0 where it cannot tell.
uint32_t state_in_use() {
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
  const bool has_xgetbv = __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_OSXSAVE) != 0;
  if (!has_xgetbv || __get_cpuid_count(0xD, 1, &eax, &ebx, &ecx, &edx) == 0 || (eax & 4U) == 0) return 0;
  __asm__ volatile("xgetbv" : "=a"(eax), "=d"(edx) : "c"(1));
  return eax;
}

TEST(Checksum, LeavesNoUpperHalvesOfVectorRegistersInUse) {
  constexpr uint32_t kUpperOfYmm = 1U << 2, kUpperOfZmm = 1U << 6;
  if (state_in_use() == 0) GTEST_SKIP() << "this processor does not tell which state is in use";
  const auto bytes = some_bytes(1 << 16);
  constexpr uint32_t kUpperHalves = kUpperOfYmm | kUpperOfZmm;
  checksum_64(bytes);
  EXPECT_EQ(state_in_use() & kUpperHalves, 0U);
  checksum_128(bytes);
  EXPECT_EQ(state_in_use() & kUpperHalves, 0U);
  RunningChecksum running;
  running.add(bytes);
  EXPECT_EQ(state_in_use() & kUpperHalves, 0U);
  running.digest();
  EXPECT_EQ(state_in_use() & kUpperHalves, 0U);
}
#endif

}  // namespace
}  // namespace holdfast::storage
