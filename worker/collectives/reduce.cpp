// The adding loops, compiled once per instruction set; the sums have the same bits in each.
#include "worker/collectives/reduce.h"

#include <cstdint>

namespace holdfast::worker {
namespace {

// The loops are left to the compiler, once per instruction set, chosen at load time. The sanitizers cannot run the
// resolver that early, and get the plain one.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define HOLDFAST_PER_INSTRUCTION_SET __attribute__((target_clones("default", "avx2", "avx512f")))
#else
#define HOLDFAST_PER_INSTRUCTION_SET
#endif

HOLDFAST_PER_INSTRUCTION_SET void add_uint32(uint32_t* __restrict target, const uint32_t* __restrict source, size_t count) {
  for (size_t i = 0; i < count; ++i) target[i] += source[i];
}

HOLDFAST_PER_INSTRUCTION_SET void add_float(float* __restrict target, const float* __restrict source, size_t count) {
  for (size_t i = 0; i < count; ++i) target[i] += source[i];
}

}  // namespace

void add_elements(std::span<std::byte> target, std::span<const std::byte> source, Element element) {
  if (element == Element::kFloat) {
    add_float(reinterpret_cast<float*>(target.data()), reinterpret_cast<const float*>(source.data()),
              target.size() / sizeof(float));
  } else {
    add_uint32(reinterpret_cast<uint32_t*>(target.data()), reinterpret_cast<const uint32_t*>(source.data()),
               target.size() / sizeof(uint32_t));
  }
}

}  // namespace holdfast::worker
