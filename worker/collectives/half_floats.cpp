#include "worker/collectives/half_floats.h"

#include "worker/collectives/instruction_sets.h"

namespace holdfast::worker {
namespace {

HOLDFAST_PER_INSTRUCTION_SET void narrow_bfloat16(const float* __restrict from, BFloat16* __restrict to, size_t count) {
  for (size_t i = 0; i < count; ++i) to[i] = to_bfloat16(from[i]);
}

HOLDFAST_PER_INSTRUCTION_SET void narrow_float16(const float* __restrict from, Float16* __restrict to, size_t count) {
  for (size_t i = 0; i < count; ++i) to[i] = to_float16(from[i]);
}

HOLDFAST_PER_INSTRUCTION_SET void widen_bfloat16(const BFloat16* __restrict from, float* __restrict to, size_t count) {
  for (size_t i = 0; i < count; ++i) to[i] = to_float(from[i]);
}

HOLDFAST_PER_INSTRUCTION_SET void widen_float16(const Float16* __restrict from, float* __restrict to, size_t count) {
  for (size_t i = 0; i < count; ++i) to[i] = to_float(from[i]);
}

}  // namespace

void narrow(std::span<const float> from, std::span<BFloat16> to) {
  narrow_bfloat16(from.data(), to.data(), from.size());
}

void narrow(std::span<const float> from, std::span<Float16> to) {
  narrow_float16(from.data(), to.data(), from.size());
}

void widen(std::span<const BFloat16> from, std::span<float> to) {
  widen_bfloat16(from.data(), to.data(), from.size());
}

void widen(std::span<const Float16> from, std::span<float> to) {
  widen_float16(from.data(), to.data(), from.size());
}

}  // namespace holdfast::worker
