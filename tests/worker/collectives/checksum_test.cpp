#include "worker/collectives/checksum.h"

#include <gtest/gtest.h>
#include <xxhash.h>

#include <vector>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace holdfast::worker {
namespace {

TEST(Checksum, IsXxh3OfAnyLength) {
  std::vector<std::byte> bytes(5000);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * i);
  for (const size_t size : {0, 1, 16, 17, 128, 240, 241, 1024, 5000}) {
    EXPECT_EQ(checksum_of(std::span(bytes).first(size)), XXH3_64bits(bytes.data(), size)) << size;
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
  const std::vector<std::byte> bytes(1 << 16);
  checksum_of(bytes);
  EXPECT_EQ(state_in_use() & (kUpperOfYmm | kUpperOfZmm), 0U);
}
#endif

}  // namespace
}  // namespace holdfast::worker
