// What a matrix product is asked for: c (m, n) = a (m, k) * b (k, n), or c += with `add`. Plain data: sources that are compiled
// for one instruction set only may include it (vector/lanes.h says why that matters).
#pragma once

#include <cstdint>

namespace holdfast::kernels::cpu {

// How a matrix lies in memory: element (i, j) is at i * row + j * column. One of the two is 1.
struct Layout {
  int64_t row, column;
};
inline Layout by_rows(int64_t width) {
  return {width, 1};
}
inline Layout transposed(int64_t width) {
  return {1, width};
}  // of a matrix stored by rows of this width

struct ProductShape {
  int64_t m, k, n;
  Layout a, b;
  int64_t c_width;  // c is float32, by rows of this width
  bool add;
  bool bfloat16;  // a and b are bfloat16, else float32
};

}  // namespace holdfast::kernels::cpu
