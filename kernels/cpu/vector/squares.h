// Operands of products as squares of `cells`: kWidth vectors of kWidth dwords. A cell is what one lane multiplies at a time: a
// float, or two bfloat16 that are neighbours in k. Internal linkage, no templates of the standard library: see lanes.h.
//
// For an operand with lines (rows of a, columns of b) and k along the other index, a square either has a line in each vector,
// cells of k in its lanes, or a cell of k in each vector, lines in its lanes: one is the transpose of the other. Whichever
// index is contiguous in memory decides how the vectors are read: along k, or across it; and then whether they are transposed.
// Beyond the operand's edges there are zeros.
#pragma once

#include "kernels/cpu/product_shape.h"
#include "kernels/cpu/vector/lanes.h"

namespace holdfast::kernels::cpu {
namespace {

struct Square {
  Ints vector[kWidth];
};
constexpr size_t kSquareBytes = sizeof(Square);

inline void store(char* to, Ints a) {
  store(reinterpret_cast<int32_t*>(to), a, Whole{});
}

// A Part of the lanes that are there when `count` are left, which may be more than a vector has, or none.
inline Part lanes_of(int64_t count) {
  return Part(count >= kWidth ? kWidth : count <= 0 ? 0 : count);
}

#if defined(__AVX512F__)

inline void transpose(Square& square) {
  __m512i* r = square.vector;
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

#else

inline void transpose(Square& square) {
  __m256i* r = square.vector;
  __m256i s[8];
  for (int i = 0; i < 8; i += 2) {
    s[i] = _mm256_unpacklo_epi32(r[i], r[i + 1]);
    s[i + 1] = _mm256_unpackhi_epi32(r[i], r[i + 1]);
  }
  for (int i = 0; i < 8; i += 4) {
    r[i] = _mm256_unpacklo_epi64(s[i], s[i + 2]);
    r[i + 1] = _mm256_unpackhi_epi64(s[i], s[i + 2]);
    r[i + 2] = _mm256_unpacklo_epi64(s[i + 1], s[i + 3]);
    r[i + 3] = _mm256_unpackhi_epi64(s[i + 1], s[i + 3]);
  }
  for (int i = 0; i < 4; ++i) {
    s[i] = _mm256_permute2x128_si256(r[i], r[i + 4], 0x20);
    s[i + 4] = _mm256_permute2x128_si256(r[i], r[i + 4], 0x31);
  }
  for (int i = 0; i < 8; ++i) r[i] = s[i];
}

#endif

// Readers: how a kind of element becomes cells. `lines`: how many of the kWidth are there; `depth`: how much of k is there;
// `stride`: between neighbours of the index that is not contiguous. One square per part (an element may be cut into several).
// take_pair: numbers 2 i and 2 i + 1 in k of all lines, of a square that has a cell of k in each vector.

struct FloatCells {
  using Element = float;
  static constexpr int64_t kPerCell = 1;
  static constexpr int kParts = 1;

  // k is contiguous; vector i is line i.
  static void read_along(Square* to, const float* x, int64_t stride, int64_t lines, int64_t depth) {
    const Part there = lanes_of(depth);
    for (int64_t i = 0; i < kWidth; ++i) {
      to->vector[i] = i < lines ? bits_of(load(x + i * stride, there)) : broadcast_int(0);
    }
  }
  // The lines are contiguous; vector k is k of all of them.
  static void read_across(Square* to, const float* x, int64_t stride, int64_t lines, int64_t depth) {
    const Part there = lanes_of(lines);
    for (int64_t k = 0; k < kWidth; ++k) {
      to->vector[k] = k < depth ? bits_of(load(x + k * stride, there)) : broadcast_int(0);
    }
  }
  static void take_pair(Square* to, int64_t i, Floats even, Floats odd) {
    to->vector[2 * i] = bits_of(even);
    to->vector[2 * i + 1] = bits_of(odd);
  }
};

#if defined(__AVX512BW__)

struct BFloat16Cells {
  using Element = uint16_t;
  static constexpr int64_t kPerCell = 2;
  static constexpr int kParts = 1;

  static void read_along(Square* to, const uint16_t* x, int64_t stride, int64_t lines, int64_t depth) {
    const auto there = depth >= 32 ? 0xffffffffu : (1u << depth) - 1u;
    for (int64_t i = 0; i < 16; ++i) {
      to->vector[i] = i < lines ? _mm512_maskz_loadu_epi16(there, x + i * stride) : _mm512_setzero_si512();
    }
  }
  static void read_across(Square* to, const uint16_t* x, int64_t stride, int64_t lines, int64_t depth) {
    for (int64_t p = 0; p < 16; ++p) to->vector[p] = pairs(x + 2 * p * stride, stride, lanes_of(lines), depth - 2 * p);
  }
  // Of numbers as rounded_to_bfloat16() takes them. With AVX512_BF16 those below 2^-126 become 0, which is what its products
  // take them for.
  static void take_pair(Square* to, int64_t i, Floats even, Floats odd) {
#if defined(__AVX512BF16__)
    const Ints lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const Ints places = _mm512_or_si512(lane, _mm512_slli_epi32(add_int(lane, broadcast_int(16)), 16));
    to->vector[i] = _mm512_permutexvar_epi16(places, reinterpret_cast<Ints>(_mm512_cvtne2ps_pbh(odd, even)));
#else
    const Ints lower = upper_half(bits_of(rounded_to_bfloat16(even)));
    to->vector[i] = _mm512_or_si512(lower, bits_of(rounded_to_bfloat16(odd)));
#endif
  }

 private:
  // Of two neighbours in k, of lines that are contiguous.
  static Ints pairs(const uint16_t* x, int64_t stride, Part lines, int64_t depth) {
    const auto row = [&](int64_t k) {
      return k < depth ? _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(lines.mask, x + k * stride)) : _mm512_setzero_si512();
    };
    return _mm512_or_si512(row(0), _mm512_slli_epi32(row(1), 16));
  }
};

#endif

// `depth` of k and the lines as squares in the order [line / kWidth][cell / kWidth][part]. Element (line, k) is at
// line * line_stride + k * k_stride; from `lines` to `padded` (a multiple of kWidth) there are zeros. `cells_are_vectors`: a
// vector has a cell of k of all lines, else the cells of one line. Returns the end of what it wrote. x may be far from the
// caches, and lies in pieces: those of the next square, or of the next lines, are asked for while one is made.
template <typename Cells>
char* pack_lines(char* to, const typename Cells::Element* x, int64_t line_stride, int64_t k_stride, int64_t lines,
                 int64_t padded, int64_t depth, bool cells_are_vectors) {
  constexpr int64_t kSquareDepth = kWidth * Cells::kPerCell;
  const bool along = k_stride == 1;
  Square parts[Cells::kParts];
  for (int64_t line = 0; line < padded; line += kWidth) {
    for (int64_t k = 0; k < depth; k += kSquareDepth) {
      const auto* from = x + line * line_stride + k * k_stride;
      if (along) {
        for (int64_t i = kWidth; i < 2 * kWidth; ++i) __builtin_prefetch(from + i * line_stride);
        Cells::read_along(parts, from, line_stride, lines - line, depth - k);
      } else {
        for (int64_t i = kSquareDepth; i < 2 * kSquareDepth; ++i) __builtin_prefetch(from + i * k_stride);
        Cells::read_across(parts, from, k_stride, lines - line, depth - k);
      }
      for (int part = 0; part < Cells::kParts; ++part) {
        if (along == cells_are_vectors) transpose(parts[part]);
        for (int64_t i = 0; i < kWidth; ++i, to += sizeof(Ints)) store(to, parts[part].vector[i]);
      }
    }
  }
  return to;
}

// The same of weights of 4 bits, a square's cells as vectors. `k`: a multiple of a square's. `to`: 64-byte aligned.
template <typename Cells>
char* pack_int4_lines(char* to, const Int4Columns& of, int64_t padded, int64_t k, int64_t depth) {
  constexpr int64_t kPairs = kWidth * Cells::kPerCell / 2;  // of a square
  for (int64_t line = 0; line < padded; line += kWidth) {
    for (int64_t at = k; at < k + depth; at += 2 * kPairs, to += Cells::kParts * kSquareBytes) {
      const Int4Square& from = of.squares[line / Int4Square::kLines * of.groups + at / kInt4Group];
      const int64_t column = line % Int4Square::kLines;
      const Floats scale = load(reinterpret_cast<const Bf16*>(from.scales + column), Whole{});
      const auto number = [&](Ints four) {
        const Floats x = number_of_four_bits(four) * scale;
        if (of.rounding == Int4Rounding::kBFloat16) return rounded_to_bfloat16(x);
        return of.rounding == Int4Rounding::kFloat16 ? rounded(x, Fp16{}) : x;
      };
      auto* const parts = reinterpret_cast<Square*>(to);
#pragma GCC unroll 16
      for (int64_t i = 0; i < kPairs; ++i) {
        const Ints pair = load_bytes(from.pairs[at % kInt4Group / 2 + i] + column);
        Cells::take_pair(parts, i, number(pair), number(without_four_bits(pair)));
      }
    }
  }
  return to;
}

}  // namespace
}  // namespace holdfast::kernels::cpu
