// The description of a matrix product: c (m, n) = a (m, k) * b (k, n), or c += with `add`; and what each implementation of it
// gives. Plain data: sources that are compiled for one instruction set only may include it (vector/lanes.h says why that
// matters).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/vector/int4_squares.h"

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

// A packed b is made of squares: of `lines` columns and `depth` of k each, in `bytes` that follow each other, zero beyond the
// edges of b. The same elements make the same square in whatever b they are, so that one can be put together from squares.
struct SquareForm {
  int64_t lines, depth;
  size_t bytes;
};

// A piece of b that is packed by itself: columns from a multiple of kPackedColumns on to another one or the end, and of k the
// part `part` of `parts`, of which some may be empty.
struct Piece {
  int64_t first, count;
  int64_t part = 0, parts = 1;
};
inline constexpr int64_t kPackedColumns = 64;

// Matrix products in one thread. Sums are float32; the bits of c depend on the shape and the inputs alone: not on caches,
// threads or libraries. An operand that is not finite makes the elements of c that it enters not finite, too.
// Refuses nothing: that m, k and n are at least 1 is a precondition. Bytes: a is read once per call; b is packed once, for as
// many calls as there are.
struct ProductLoops {
  // b as `run` wants it. `packed` has packed_bytes(shape), 64-byte aligned.
  size_t (*packed_bytes)(const ProductShape& shape);
  void (*pack)(const ProductShape& shape, const void* b, Piece piece, void* packed);
  // The same of a b of weights of 4 bits, of which there are columns up to a multiple of 64. Null where a packed b is of 16
  // bits and multiplied as float32.
  void (*pack_int4)(const ProductShape& shape, const Int4Columns& b, void* packed);
  SquareForm (*square)(const ProductShape& shape);
  // The place in a packed b of the square whose first element is (k, column): multiples of its extents.
  size_t (*square_at)(const ProductShape& shape, int64_t column, int64_t k);
  // `scratch` has scratch_bytes(shape), 64-byte aligned, one per thread.
  size_t (*scratch_bytes)(const ProductShape& shape);
  void (*run)(const ProductShape& shape, const void* a, const void* packed_b, float* c, void* scratch);
};

}  // namespace holdfast::kernels::cpu
