// Operands as tiles for the matrix units: 16 rows of 64 bytes, which are squares of cells of two bfloat16 (vector/squares.h).
//
// A tile of a (16 rows i, 32 k): row i holds k in order.         dword (i, p) = a(i, 2p), a(i, 2p+1)
// A tile of b (32 k, 16 columns j): row p holds pairs of k.      dword (p, j) = b(2p, j), b(2p+1, j)
#pragma once

#include "kernels/cpu/vector/squares.h"

namespace holdfast::kernels::cpu::amx {
namespace {

constexpr int64_t kTileSide = kWidth;  // rows of a, columns of b
constexpr int64_t kTileDepth = 32;     // of k
constexpr size_t kTileBytes = kSquareBytes;

// A float32 as three bfloat16.
struct ThreePartCells {
  using Element = float;
  static constexpr int64_t kPerCell = 2;
  static constexpr int kParts = 3;

  static void read_along(Square* parts, const float* x, int64_t stride, int64_t lines, int64_t depth) {
    const __m512i evens = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i odds = _mm512_add_epi32(evens, _mm512_set1_epi32(1));
    for (int64_t i = 0; i < 16; ++i) {
      const float* line = x + i * stride;
      const __m512 low = load(line, lanes_of(i < lines ? depth : 0));
      const __m512 high = load(line + 16, lanes_of(i < lines ? depth - 16 : 0));
      take_pair(parts, i, _mm512_permutex2var_ps(low, evens, high), _mm512_permutex2var_ps(low, odds, high));
    }
  }
  static void read_across(Square* parts, const float* x, int64_t stride, int64_t lines, int64_t depth) {
    for (int64_t p = 0; p < 16; ++p) {
      const auto row = [&](int64_t k) { return load(x + k * stride, lanes_of(k < depth ? lines : 0)); };
      take_pair(parts, p, row(2 * p), row(2 * p + 1));
    }
  }
  // The parts of two floats that are neighbours in k, as dwords of three squares' vector `i`. The rest after two roundings
  // has at most 8 bits, and is a bfloat16 as it is. An infinity stays one; of a NaN the first part may be a number, and what is
  // left over is a NaN.
  static void take_pair(Square* parts, int64_t i, __m512 even, __m512 odd) {
    for (int part = 0; part < 2; ++part) {
      const __m512i low = bits_of(rounded_to_bfloat16(even)), high = bits_of(rounded_to_bfloat16(odd));
      even = _mm512_sub_ps(even, _mm512_castsi512_ps(low));
      odd = _mm512_sub_ps(odd, _mm512_castsi512_ps(high));
      parts[part].vector[i] = _mm512_or_si512(_mm512_srli_epi32(low, 16), high);
    }
    const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xffff0000u));
    parts[2].vector[i] =
        _mm512_or_si512(_mm512_srli_epi32(_mm512_castps_si512(even), 16), _mm512_and_si512(_mm512_castps_si512(odd), upper));
  }
};

}  // namespace
}  // namespace holdfast::kernels::cpu::amx
