// The adding loops, compiled once per instruction set; the sums have the same bits in each.
#include "worker/collectives/reduce.h"

#include <cstdint>
#include <stdexcept>

#include "worker/collectives/half_floats.h"
#include "worker/collectives/instruction_sets.h"

namespace holdfast::worker {
namespace {

HOLDFAST_PER_INSTRUCTION_SET void add_uint32(uint32_t* __restrict target, const uint32_t* __restrict source, size_t count) {
  for (size_t i = 0; i < count; ++i) target[i] += source[i];
}

HOLDFAST_PER_INSTRUCTION_SET void add_uint16(uint16_t* __restrict target, const uint16_t* __restrict source, size_t count) {
  for (size_t i = 0; i < count; ++i) target[i] = static_cast<uint16_t>(target[i] + source[i]);
}

HOLDFAST_PER_INSTRUCTION_SET void add_float(float* __restrict target, const float* __restrict source, size_t count) {
  for (size_t i = 0; i < count; ++i) target[i] += source[i];
}

HOLDFAST_PER_INSTRUCTION_SET void add_bfloat16(BFloat16* __restrict target, const BFloat16* __restrict source, size_t count) {
  for (size_t i = 0; i < count; ++i) target[i] = to_bfloat16(to_float(target[i]) + to_float(source[i]));
}

HOLDFAST_PER_INSTRUCTION_SET void add_float16(Float16* __restrict target, const Float16* __restrict source, size_t count) {
  for (size_t i = 0; i < count; ++i) target[i] = to_float16(to_float(target[i]) + to_float(source[i]));
}

template <typename T>
void add(void (*loop)(T*, const T*, size_t), std::span<std::byte> target, std::span<const std::byte> source) {
  loop(reinterpret_cast<T*>(target.data()), reinterpret_cast<const T*>(source.data()), target.size() / sizeof(T));
}

}  // namespace

void add_elements(std::span<std::byte> target, std::span<const std::byte> source, Element element) {
  switch (element) {
    case Element::kInt32:
      return add(add_uint32, target, source);
    case Element::kInt16:
      return add(add_uint16, target, source);
    case Element::kFloat:
      return add(add_float, target, source);
    case Element::kBFloat16:
      return add(add_bfloat16, target, source);
    case Element::kFloat16:
      return add(add_float16, target, source);
    case Element::kByte:
      break;
  }
  throw std::invalid_argument("add_elements: bytes are not added");
}

}  // namespace holdfast::worker
