// Sums and largest magnitudes over many elements: a block reduces a piece of fixed size, and pieces are added in their order,
// so the bits depend on neither the grid nor the wave.
#pragma once

#include "kernels/hip/elements.h"
#include "kernels/hip/portable.h"

namespace holdfast::kernels::hip {

inline constexpr int kSumThreads = 256;
inline constexpr int64_t kPiece = 64 * kSumThreads;  // elements of a block

// Of all threads' values, in a fixed order; thread 0 has the result. Once a kernel.
template <typename Number, typename Combine>
__device__ inline Number over_block(Number value, Combine combine) {
  HOLDFAST_SHARED(Number[kSumThreads], values);
  const int thread = static_cast<int>(threadIdx.x);
  values[thread] = value;
  for (int half = kSumThreads / 2; half > 0; half /= 2) {
    barrier();
    if (thread < half) values[thread] = combine(values[thread], values[thread + half]);
  }
  return values[0];
}

// pieces[b] = sum of x over piece b.
template <typename Real>
__global__ void sum_pieces(double* pieces, const Real* x, int64_t count) {
  const int64_t begin = static_cast<int64_t>(blockIdx.x) * kPiece, end = begin + kPiece < count ? begin + kPiece : count;
  double sum = 0;
  for (int64_t i = begin + static_cast<int64_t>(threadIdx.x); i < end; i += kSumThreads) sum += static_cast<double>(x[i]);
  sum = over_block(sum, Sum());
  if (threadIdx.x == 0) pieces[blockIdx.x] = sum;
}

// The sum of `count` pieces, by one block; thread 0 has the result.
template <typename Real>
__device__ inline Real sum_by_block(const Real* pieces, int64_t count) {
  Real sum = 0;
  for (int64_t i = static_cast<int64_t>(threadIdx.x); i < count; i += kSumThreads) sum += pieces[i];
  return over_block(sum, Sum());
}

// One block: total = sum of `count` pieces.
template <typename Real>
__global__ void sum_of_pieces(Real* total, const Real* pieces, int64_t count) {
  const Real sum = sum_by_block(pieces, count);
  if (threadIdx.x == 0) *total = sum;
}

// One of several ranges. Their pieces are counted through all of them: this one's begin with number `first`, and one without
// elements has none.
struct PiecedRange {
  const float* x;
  int64_t count, first;
};

// The range that has piece `piece`: the last that does not begin behind it.
__device__ inline PiecedRange range_of_piece(const PiecedRange* ranges, int64_t how_many, int64_t piece) {
  int64_t at = 0, behind = how_many;
  while (behind - at > 1) {
    const int64_t middle = (at + behind) / 2;
    (ranges[middle].first <= piece ? at : behind) = middle;
  }
  return ranges[at];
}

// pieces[b] = sum of squares over piece b. Blocks: the pieces of all ranges (how_many). Reads 4 bytes an element.
template <typename Real>
__global__ void square_pieces(double* pieces, const PiecedRange* ranges, int64_t how_many) {
  const auto piece = static_cast<int64_t>(blockIdx.x);
  const PiecedRange range = range_of_piece(ranges, how_many, piece);
  const Real* const x = range.x;
  const int64_t begin = (piece - range.first) * kPiece, end = begin + kPiece < range.count ? begin + kPiece : range.count;
  double sum = 0;
  for (int64_t i = begin + static_cast<int64_t>(threadIdx.x); i < end; i += kSumThreads) {
    const auto value = static_cast<double>(x[i]);
    sum = fma(value, value, sum);  // the square is exact: one rounding either way
  }
  sum = over_block(sum, Sum());
  if (threadIdx.x == 0) pieces[piece] = sum;
}

// sums[r] = sum of range r's pieces, in the order of sum_of_pieces. Blocks: ranges.
template <typename Real>
__global__ void sums_of_ranges(Real* sums, const Real* pieces, const PiecedRange* ranges) {
  const PiecedRange range = ranges[blockIdx.x];
  const Real sum = sum_by_block(pieces + range.first, (range.count + kPiece - 1) / kPiece);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

// A magnitude that orders NaN and infinity above everything: the bits of |x| as an integer.
__device__ inline uint32_t magnitude(float x) {
  return bits_as<uint32_t>(x) & 0x7fffffffU;
}

template <typename Real>
__global__ void largest_pieces(uint32_t* pieces, const Real* x, int64_t count) {
  const int64_t begin = static_cast<int64_t>(blockIdx.x) * kPiece, end = begin + kPiece < count ? begin + kPiece : count;
  uint32_t largest = 0;
  for (int64_t i = begin + static_cast<int64_t>(threadIdx.x); i < end; i += kSumThreads) {
    const uint32_t own = magnitude(x[i]);
    if (own > largest) largest = own;
  }
  largest = over_block(largest, Largest());
  if (threadIdx.x == 0) pieces[blockIdx.x] = largest;
}

// One block. +infinity for anything that is not finite.
template <typename Real>
__global__ void largest_of_pieces(Real* out, const uint32_t* pieces, int64_t count) {
  uint32_t largest = 0;
  for (int64_t i = static_cast<int64_t>(threadIdx.x); i < count; i += kSumThreads) {
    if (pieces[i] > largest) largest = pieces[i];
  }
  largest = over_block(largest, Largest());
  constexpr uint32_t kInfinity = 0x7f800000U;
  if (threadIdx.x == 0) *out = bits_as<Real>(largest > kInfinity ? kInfinity : largest);
}

// --- sums of columns: of rows in chunks, then of the chunks in their order.

inline constexpr int64_t kChunkRows = 64;

// chunks (ceil(N / kChunkRows), C): sums of x (N, C) over the rows of each chunk. Blocks: chunks times columns by kSumThreads.
template <typename Element>
__global__ void column_chunks(float* chunks, const Element* x, int64_t N, int64_t C) {
  const int64_t column_blocks = (C + kSumThreads - 1) / kSumThreads;
  const int64_t chunk = static_cast<int64_t>(blockIdx.x) / column_blocks;
  const int64_t c = static_cast<int64_t>(blockIdx.x) % column_blocks * kSumThreads + static_cast<int64_t>(threadIdx.x);
  if (c >= C) return;
  const int64_t begin = chunk * kChunkRows, end = begin + kChunkRows < N ? begin + kChunkRows : N;
  float sum = 0;
  for (int64_t n = begin; n < end; ++n) sum += widen(x[n * C + c]);
  chunks[chunk * C + c] = sum;
}

// The sums of `count` chunks (count, C), of which each group of lanes adds every eighth: of the first `split` columns to out,
// of the others to `others`. Blocks: columns by kLanes.
template <typename Real>
__global__ void sum_of_chunks(Real* out, Real* others, const Real* chunks, int64_t count, int64_t C, int64_t split) {
  HOLDFAST_SHARED(Real[kSumThreads], sums);
  const int group = static_cast<int>(threadIdx.x) / kLanes;
  const int64_t c = static_cast<int64_t>(blockIdx.x) * kLanes + lane();
  Real sum = 0;
  for (int64_t chunk = group; chunk < count && c < C; chunk += kSumThreads / kLanes) sum += chunks[chunk * C + c];
  sums[threadIdx.x] = sum;
  barrier();
  if (group > 0 || c >= C) return;
  for (int other = 1; other < kSumThreads / kLanes; ++other) sum += sums[other * kLanes + lane()];
  (c < split ? out[c] : others[c - split]) = sum;
}

}  // namespace holdfast::kernels::hip
