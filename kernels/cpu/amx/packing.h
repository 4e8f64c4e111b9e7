// Operands as tiles for the matrix units: 16 rows of 64 bytes. Internal linkage, no templates of the standard library: see
// vector/lanes.h.
//
// A tile of a (16 rows i, 32 k): row i holds k in order.         dword (i, p) = a(i, 2p), a(i, 2p+1)
// A tile of b (32 k, 16 columns j): row p holds pairs of k.      dword (p, j) = b(2p, j), b(2p+1, j)
// So both are 16 x 16 dwords of k-pairs, one the transpose of the other. Whichever index is contiguous in memory decides how
// the 16 vectors are read: along k as they are, across k by pairing two rows; and then whether they are transposed.
// Beyond the operand's edges there are zeros.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/product_shape.h"

namespace holdfast::kernels::cpu::amx {
namespace {

constexpr int64_t kTileSide = 16;   // rows of a, columns of b
constexpr int64_t kTileDepth = 32;  // of k
constexpr size_t kTileBytes = 1024;

struct Tile {
  __m512i vector[16];
};

inline __mmask16 first_lanes(int64_t count) {
  return count >= 16 ? static_cast<__mmask16>(0xffff) : count <= 0 ? __mmask16{0} : static_cast<__mmask16>((1u << count) - 1u);
}

// Rounds to bfloat16, to nearest even, leaving a float. An infinity stays one; of a NaN it makes anything but a finite number
// that would hide it: the part that is left over is then a NaN.
inline __m512i rounded(__m512 x) {
  const __m512i bits = _mm512_castps_si512(x);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i up = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
  return _mm512_and_si512(up, _mm512_set1_epi32(static_cast<int>(0xffff0000u)));
}

// The parts of two floats that are neighbours in k, as dwords of three tiles' vector `i`. What is left after two roundings has
// at most 8 bits, and is a bfloat16 as it is.
inline void take_parts(Tile* parts, int64_t i, __m512 even, __m512 odd) {
  for (int part = 0; part < 2; ++part) {
    const __m512i low = rounded(even), high = rounded(odd);
    even = _mm512_sub_ps(even, _mm512_castsi512_ps(low));
    odd = _mm512_sub_ps(odd, _mm512_castsi512_ps(high));
    parts[part].vector[i] = _mm512_or_si512(_mm512_srli_epi32(low, 16), high);
  }
  const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xffff0000u));
  parts[2].vector[i] =
      _mm512_or_si512(_mm512_srli_epi32(_mm512_castps_si512(even), 16), _mm512_and_si512(_mm512_castps_si512(odd), upper));
}

// 16 x 16 dwords.
inline void transpose(Tile& t) {
  __m512i* r = t.vector;
  __m512i s[16];
  for (int i = 0; i < 16; i += 2) {
    s[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    s[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    r[i] = _mm512_unpacklo_epi64(s[i], s[i + 2]);
    r[i + 1] = _mm512_unpackhi_epi64(s[i], s[i + 2]);
    r[i + 2] = _mm512_unpacklo_epi64(s[i + 1], s[i + 3]);
    r[i + 3] = _mm512_unpackhi_epi64(s[i + 1], s[i + 3]);
  }
  for (int i = 0; i < 4; ++i) {
    s[i] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0x88);
    s[i + 4] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0xdd);
    s[i + 8] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0x88);
    s[i + 12] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0xdd);
  }
  for (int i = 0; i < 4; ++i) {
    r[i] = _mm512_shuffle_i32x4(s[i], s[i + 8], 0x88);
    r[i + 4] = _mm512_shuffle_i32x4(s[i + 4], s[i + 12], 0x88);
    r[i + 8] = _mm512_shuffle_i32x4(s[i], s[i + 8], 0xdd);
    r[i + 12] = _mm512_shuffle_i32x4(s[i + 4], s[i + 12], 0xdd);
  }
}

// Reading. `lines`: how many of the 16 are there along the other index; `depth`: how much of k is there.

// k is contiguous; vector i is line i, 32 of k.
inline void read_along(Tile* parts, const uint16_t* x, int64_t stride, int64_t lines, int64_t depth) {
  const auto mask = depth >= 32 ? 0xffffffffu : (1u << depth) - 1u;
  for (int64_t i = 0; i < 16; ++i) {
    parts->vector[i] = i < lines ? _mm512_maskz_loadu_epi16(mask, x + i * stride) : _mm512_setzero_si512();
  }
}
inline void read_along(Tile* parts, const float* x, int64_t stride, int64_t lines, int64_t depth) {
  const __m512i evens = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  const __m512i odds = _mm512_add_epi32(evens, _mm512_set1_epi32(1));
  for (int64_t i = 0; i < 16; ++i) {
    const float* line = x + i * stride;
    const __m512 low = _mm512_maskz_loadu_ps(i < lines ? first_lanes(depth) : __mmask16{0}, line);
    const __m512 high = _mm512_maskz_loadu_ps(i < lines ? first_lanes(depth - 16) : __mmask16{0}, line + 16);
    take_parts(parts, i, _mm512_permutex2var_ps(low, evens, high), _mm512_permutex2var_ps(low, odds, high));
  }
}

// The other index is contiguous; vector p is k = 2p and 2p + 1 of 16 lines.
inline void read_across(Tile* parts, const uint16_t* x, int64_t stride, int64_t lines, int64_t depth) {
  const __mmask16 mask = first_lanes(lines);
  for (int64_t p = 0; p < 16; ++p) {
    const auto row = [&](int64_t k) {
      return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(k < depth ? mask : __mmask16{0}, x + k * stride));
    };
    parts->vector[p] = _mm512_or_si512(row(2 * p), _mm512_slli_epi32(row(2 * p + 1), 16));
  }
}
inline void read_across(Tile* parts, const float* x, int64_t stride, int64_t lines, int64_t depth) {
  const __mmask16 mask = first_lanes(lines);
  for (int64_t p = 0; p < 16; ++p) {
    const auto row = [&](int64_t k) { return _mm512_maskz_loadu_ps(k < depth ? mask : __mmask16{0}, x + k * stride); };
    take_parts(parts, p, row(2 * p), row(2 * p + 1));
  }
}

// `depth` of k and `lines` of the other index as tiles in the order [lines / 16][k / 32][part], rounded up to whole
// pairs of tiles along the lines. Element (line, k) is at line * line_stride + k * k_stride. `pairs_are_rows`: tiles of b.
template <typename Element, int kParts>
void pack_lines(char* to, const Element* x, int64_t line_stride, int64_t k_stride, int64_t lines, int64_t depth,
                bool pairs_are_rows) {
  const bool along = k_stride == 1;
  Tile parts[kParts];
  for (int64_t line = 0; line < (lines + 31) / 32 * 32; line += kTileSide) {
    for (int64_t k = 0; k < depth; k += kTileDepth) {
      const Element* from = x + line * line_stride + k * k_stride;
      if (along) {
        read_along(parts, from, line_stride, lines - line, depth - k);
      } else {
        read_across(parts, from, k_stride, lines - line, depth - k);
      }
      for (int part = 0; part < kParts; ++part) {
        if (along == pairs_are_rows) transpose(parts[part]);
        for (int i = 0; i < 16; ++i) _mm512_store_si512(to + i * 64, parts[part].vector[i]);
        to += kTileBytes;
      }
    }
  }
}

}  // namespace
}  // namespace holdfast::kernels::cpu::amx
