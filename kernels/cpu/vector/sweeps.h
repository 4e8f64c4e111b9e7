// Loops over a row, a vector at a time, and how its lanes are folded into one value, in an order that depends on the row's
// length alone. Internal linkage for the reason that lanes.h gives.
#pragma once

#include "kernels/cpu/vector/lanes.h"

namespace holdfast::kernels::cpu {
namespace {

// Calls body(i, Whole) for every whole vector of `count` elements and body(i, Part) for what is left.
template <typename Body>
inline void sweep(int64_t count, Body body) {
  int64_t i = 0;
  for (; i + kWidth <= count; i += kWidth) body(i, Whole{});
  if (i < count) body(i, Part(count - i));
}

// Lanes are added in halves: 0+8, 1+9, ..., then 0+4, ... The order never changes.
inline float sum_of_lanes(Floats a) {
#if defined(__AVX512F__)
  const __m256 eight = _mm512_castps512_ps256(a) + _mm512_extractf32x8_ps(a, 1);
#else
  const __m256 eight = a;
#endif
  const __m128 four = _mm256_castps256_ps128(eight) + _mm256_extractf128_ps(eight, 1);
  const __m128 two = four + _mm_movehl_ps(four, four);
  return _mm_cvtss_f32(two) + _mm_cvtss_f32(_mm_shuffle_ps(two, two, 1));
}

// As `sweep`, for what is folded into one value: body(which, i, part) folds into one of four side by side, as each operation
// waits for the one before it. Which, depends on `count` and i alone.
template <typename Body>
inline void sweep_four(int64_t count, Body body) {
  int64_t i = 0;
  for (; i + 4 * kWidth <= count; i += 4 * kWidth) {
#pragma GCC unroll 4
    for (int64_t which = 0; which < 4; ++which) body(which, i + which * kWidth, Whole{});
  }
  for (; i + kWidth <= count; i += kWidth) body(0, i, Whole{});
  if (i < count) body(1, i, Part(count - i));
}

// The sum of term(i, part), which is 0 in lanes beyond the row.
template <typename Term>
inline float sum_of_terms(int64_t count, Term term) {
  Floats sum[4] = {broadcast(0.0f), broadcast(0.0f), broadcast(0.0f), broadcast(0.0f)};
  sweep_four(count, [&](int64_t which, int64_t i, auto part) { sum[which] = sum[which] + term(i, part); });
  return sum_of_lanes((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

inline float largest_lane(Floats a) {
  float lane[kWidth];
  store(lane, a, Whole{});
  float most = lane[0];
  for (int64_t i = 1; i < kWidth; ++i) most = lane[i] > most ? lane[i] : most;
  return most;
}

}  // namespace
}  // namespace holdfast::kernels::cpu
