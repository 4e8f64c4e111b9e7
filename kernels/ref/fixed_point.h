// Fixed point, plain: integers have no order of addition, which is what makes an exact reduction exact.
// The default rounding mode is in force (nothing here changes it), so nearbyint rounds to nearest, ties to even.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/wrapping_sum.h"

namespace holdfast::kernels::ref {

inline float abs_max(const float* x, int64_t count) {
  float largest = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (!std::isfinite(x[i])) return INFINITY;
    largest = std::fmax(largest, std::fabs(x[i]));
  }
  return largest;
}

// ldexp in double is exact for every float and every exponent in reach, so nearbyint is the only rounding.
// `Integer` is int32_t or int16_t.
template <typename Integer>
void fixed_accumulate(Integer* sums, const float* x, int64_t count, int exponent, bool first) {
  for (int64_t i = 0; i < count; ++i) {
    const auto rounded = static_cast<int32_t>(std::nearbyint(std::ldexp(static_cast<double>(x[i]), exponent)));
    sums[i] = static_cast<Integer>((first ? 0 : sums[i]) + rounded);
  }
}

template <typename Integer>
void fixed_unpack(float* x, const Integer* sums, int64_t count, float scale) {
  for (int64_t i = 0; i < count; ++i) x[i] = static_cast<float>(sums[i]) * scale;
}

inline void float_accumulate(float* sums, const float* x, int64_t count, bool first) {
  for (int64_t i = 0; i < count; ++i) sums[i] = first ? x[i] : sums[i] + x[i];
}

// sums[ids[r], c] += rows[r, c]
template <typename Number>
void add_rows(Number* sums, const Number* rows, const int32_t* ids, int64_t R, int64_t C) {
  for (int64_t r = 0; r < R; ++r) {
    for (int64_t c = 0; c < C; ++c) sums[ids[r] * C + c] = wrapping_sum(sums[ids[r] * C + c], rows[r * C + c]);
  }
}

}  // namespace holdfast::kernels::ref
