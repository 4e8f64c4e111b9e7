// Products of rows of int8 in blocks of kRows x kColumns sums, which stay in registers. Internal linkage: see lanes.h.
//
// Dots: what sources give that include this:
//   Sum, Operand; kRows, kBytes (of a step)
//   static Sum zero();  static Operand load_a(const int8_t*);  static Operand load_w(const int8_t*)
//   static Sum add(Sum, Operand a, Operand w);  static int32_t total(Sum)
//   static int32_t beyond(int32_t sum_of_w): how much more than the product `total` is
#pragma once

#include "kernels/cpu/vector/int8.h"

namespace holdfast::kernels::cpu {
namespace {

template <typename Dots>
struct Int8Blocks {
  static constexpr int64_t kColumns = 4;

  template <int64_t kHere, int64_t kAcross>
  static void block(int32_t* c, int64_t c_width, const int8_t* a, const int8_t* w, const int32_t* sums, int64_t depth) {
    typename Dots::Sum sum[kHere][kAcross];
#pragma GCC unroll 4
    for (int64_t r = 0; r < kHere; ++r) {
#pragma GCC unroll 4
      for (int64_t j = 0; j < kAcross; ++j) sum[r][j] = Dots::zero();
    }
    for (int64_t k = 0; k < depth; k += Dots::kBytes) {
      typename Dots::Operand beside[kAcross];
#pragma GCC unroll 4
      for (int64_t j = 0; j < kAcross; ++j) beside[j] = Dots::load_w(w + j * depth + k);
#pragma GCC unroll 4
      for (int64_t r = 0; r < kHere; ++r) {
        const typename Dots::Operand row = Dots::load_a(a + r * depth + k);
#pragma GCC unroll 4
        for (int64_t j = 0; j < kAcross; ++j) sum[r][j] = Dots::add(sum[r][j], row, beside[j]);
      }
    }
#pragma GCC unroll 4
    for (int64_t r = 0; r < kHere; ++r) {
#pragma GCC unroll 4
      for (int64_t j = 0; j < kAcross; ++j) c[r * c_width + j] = Dots::total(sum[r][j]) - Dots::beyond(sums[j]);
    }
  }

  template <int64_t kAcross>
  static void columns(int32_t* c, int64_t c_width, const int8_t* a, int64_t rows, const int8_t* w, const int32_t* sums,
                      int64_t depth) {
    int64_t r = 0;
    for (; r + Dots::kRows <= rows; r += Dots::kRows)
      block<Dots::kRows, kAcross>(c + r * c_width, c_width, a + r * depth, w, sums, depth);
    for (; r < rows; ++r) block<1, kAcross>(c + r * c_width, c_width, a + r * depth, w, sums, depth);
  }

  static void multiply(int32_t* c, int64_t c_width, const int8_t* a, int64_t rows, const int8_t* w, const int32_t* sums,
                       int64_t count, int64_t depth) {
    int64_t j = 0;
    for (; j + kColumns <= count; j += kColumns) columns<kColumns>(c + j, c_width, a, rows, w + j * depth, sums + j, depth);
    for (; j < count; ++j) columns<1>(c + j, c_width, a, rows, w + j * depth, sums + j, depth);
  }
};

}  // namespace
}  // namespace holdfast::kernels::cpu
