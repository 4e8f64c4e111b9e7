// Fixed point; meaning in DeviceOps. Compiled once per instruction set (see fill.h). Bytes per
// element: 8 read, 4 written for int32 sums; 6 read, 2 written for int16 sums, which are widened to add.
#include "kernels/cpu/vector/fill.h"
#include "kernels/cpu/vector/sweeps.h"

namespace holdfast::kernels::cpu::HOLDFAST_VECTOR_ISA {
namespace {

// The bits of a magnitude, read as an integer, are in the order of the magnitudes, with infinity and NaN on top.
float abs_max(const float* x, int64_t count) {
  Ints most[4] = {broadcast_int(0), broadcast_int(0), broadcast_int(0), broadcast_int(0)};
  sweep_four(count, [&](int64_t which, int64_t i, auto part) {
    most[which] = larger_int(most[which], and_int(bits_of(load(x + i, part)), broadcast_int(0x7fffffff)));
  });
  int32_t lane[kWidth];
  store(lane, larger_int(larger_int(most[0], most[1]), larger_int(most[2], most[3])), Whole{});
  int32_t largest = 0;
  for (int32_t bits : lane) largest = bits > largest ? bits : largest;
  if (largest >= 0x7f800000) return __builtin_inff();
  float value;
  __builtin_memcpy(&value, &largest, sizeof value);
  return value;
}

// 2^exponent for a normal number.
float power_of_two(int exponent) {
  const int32_t bits = (exponent + 127) * 0x800000;
  float value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

// 2^exponent need not be a float, so it is applied in two halves. Both products are exact, except where the result is so
// small (below 2^-126) that it rounds to 0 either way. Beyond +-252 nothing changes: there only zeros are in range, or left.
// `Integer` is int32_t or int16_t.
template <typename Integer>
void fixed_accumulate(Integer* sums, const float* x, int64_t count, int exponent, bool first) {
  const int bounded = exponent < -252 ? -252 : exponent > 252 ? 252 : exponent;
  const Floats half = broadcast(power_of_two(bounded / 2)), rest = broadcast(power_of_two(bounded - bounded / 2));
  sweep(count, [&](int64_t i, auto part) {
    const Ints rounded = nearest_int(load(x + i, part) * half * rest);
    store(sums + i, first ? rounded : add_int(load(sums + i, part), rounded), part);
  });
}

template <typename Integer>
void fixed_unpack(float* x, const Integer* sums, int64_t count, float scale) {
  sweep(count, [&](int64_t i, auto part) { store(x + i, to_floats(load(sums + i, part)) * broadcast(scale), part); });
}

}  // namespace

void fill_fixed_point(VectorTable& table) {
  table.floats.abs_max = abs_max;
  table.floats.fixed_accumulate = fixed_accumulate<int32_t>;
  table.floats.fixed_accumulate_int16 = fixed_accumulate<int16_t>;
  table.floats.fixed_unpack = fixed_unpack<int32_t>;
  table.floats.fixed_unpack_int16 = fixed_unpack<int16_t>;
}

}  // namespace holdfast::kernels::cpu::HOLDFAST_VECTOR_ISA
