// Two products in a row, of which the first one's result becomes an operand of the second without leaving its registers:
//
//   C (16 fixed, 16 streamed) = F (16, K) * S (16, K)^T        then, for weights w that are made of C element by element,
//   O (16 fixed, 16 channels) += w (16, 16) * X (16 channels, 16 streamed)^T
//
// The fixed rows are a wave's own for as long as a kernel runs, the streamed ones pass by. On which side of the first product
// the fixed rows are is decided so that a lane can make its part of the second product's operand from its own elements of C. A
// lane's i-th sum, of C and of O alike, is of the fixed row `fixed(lane, i)`, and of the streamed row or channel
// `streamed(lane, i)`. Kinds: those with matrix units. `Chain<Tile>::kExists` is false for the others.
#pragma once

#include "kernels/hip/matrix_tile.h"

namespace holdfast::kernels::hip {

template <typename To, typename Element, int Count>
__device__ inline To bits_of(const Element (&elements)[Count]) {
  static_assert(sizeof(To) == sizeof elements);
  To to;
  __builtin_memcpy(&to, elements, sizeof to);
  return to;
}

template <typename Tile>
struct Chain {
  static constexpr bool kExists = false;
};

// AMD's: the fixed rows are C's columns, of which a lane has one.
template <typename Tile, typename Element, int Wave, int Run>
struct ChainOfColumns {
  static constexpr bool kExists = true;
  static constexpr bool kTurnsStreamed = true;  // X's tiles are best loaded from rows of channels
  static constexpr int kOwn = 1;                // fixed rows of a lane
  static constexpr int kRun = Run;  // of a lane's sums, so many in a row are of neighbouring streamed rows or channels
  __device__ static int fixed(int lane, int i) { return Tile::column(lane, i); }
  __device__ static int streamed(int lane, int i) { return Tile::row(lane, i); }
  __device__ static constexpr int own(int) { return 0; }  // which of the lane's fixed rows its i-th sum is of
  __device__ static int fixed_of_own(int lane, int) { return lane % kTile; }
  __device__ static bool is_first_of_fixed(int lane) { return lane < kTile; }  // one lane of all that have these fixed rows
  __device__ static auto load_fixed(const Element* at, int stride) { return Tile::load_b(at, stride); }
  template <bool ByColumns = false>
  __device__ static auto load_streamed(const Element* at, int stride) {
    return Tile::template load_a<ByColumns>(at, stride);
  }
  __device__ static void multiply(typename Tile::Sums& sums, const typename Tile::Operand& fixed,
                                  const typename Tile::Operand& streamed) {
    Tile::multiply(sums, streamed, fixed);
  }
  // Over the lanes that have the same fixed rows; each has the result.
  template <typename Combine>
  __device__ static float over_streamed(float value, Combine combine) {
    for (int distance = kTile; distance < Wave; distance *= 2)
      value = combine(value, from_lane_of_wave<Wave>(value, wave_lane<Wave>() ^ distance));
    return value;
  }
};

// Where a lane's sums are of consecutive rows, as its elements of an operand are of consecutive k.
template <typename Tile, typename Element, int Wave>
struct ChainOfRuns : ChainOfColumns<Tile, Element, Wave, Tile::kSums> {
  __device__ static typename Tile::Operand as_fixed(const Element (&weights)[Tile::kSums]) {
    return bits_of<typename Tile::Operand>(weights);
  }
};
template <typename Element>
struct Chain<Wmma12Tile<Element>> : ChainOfRuns<Wmma12Tile<Element>, Element, 32> {};
template <typename Element>
struct Chain<MfmaTile<Element>> : ChainOfRuns<MfmaTile<Element>, Element, 64> {};

// RDNA3: a lane has every other row, and needs all 16: it gets the others of the lane 16 further.
template <typename Element>
struct Chain<Wmma11Tile<Element>> : ChainOfColumns<Wmma11Tile<Element>, Element, 32, 1> {
  using Tile = Wmma11Tile<Element>;
  __device__ static typename Tile::Operand as_fixed(const Element (&weights)[Tile::kSums]) {
    const int lane = wave_lane<32>();
    const bool is_even = lane < kTile;  // its rows are
    uint32_t words[Tile::kSums];        // two neighbouring k each
    HOLDFAST_UNROLL
    for (int i = 0; i < Tile::kSums; i += 2) {
      const uint32_t own = weights[i].bits | static_cast<uint32_t>(weights[i + 1].bits) << 16;
      const auto other = bits_as<uint32_t>(from_lane(bits_as<float>(own), lane ^ kTile));
      const uint32_t even = is_even ? own : other, odd = is_even ? other : own;
      words[i] = (even & 0xffffU) | odd << 16;
      words[i + 1] = even >> 16 | (odd & 0xffff0000U);
    }
    return bits_of<typename Tile::Operand>(words);
  }
};

// NVIDIA's: the fixed rows are C's rows, of which a lane has two.
template <typename Element>
struct Chain<NvidiaTile<Element>> {
  using Tile = NvidiaTile<Element>;
  static constexpr bool kExists = true;
  static constexpr bool kTurnsStreamed = false;
  static constexpr int kOwn = 2;
  static constexpr int kRun = 2;
  __device__ static int fixed(int lane, int i) { return Tile::row(lane, i); }
  __device__ static int streamed(int lane, int i) { return Tile::column(lane, i); }
  __device__ static constexpr int own(int i) { return i % 4 / 2; }
  __device__ static int fixed_of_own(int lane, int which) { return lane / 4 + 8 * which; }
  __device__ static bool is_first_of_fixed(int lane) { return lane % 4 == 0; }
  __device__ static auto load_fixed(const Element* at, int stride) { return Tile::load_a(at, stride); }
  template <bool ByColumns = false>
  __device__ static auto load_streamed(const Element* at, int stride) {
    return Tile::template load_b<ByColumns>(at, stride);
  }
  __device__ static void multiply(typename Tile::Sums& sums, const typename Tile::Operand& fixed,
                                  const typename Tile::Operand& streamed) {
    Tile::multiply(sums, fixed, streamed);
  }
  template <typename Combine>
  __device__ static float over_streamed(float value, Combine combine) {
    for (int distance = 1; distance < 4; distance *= 2) value = combine(value, from_lane(value, lane() ^ distance));
    return value;
  }
  // C's four pairs of columns are A's four registers.
  __device__ static typename Tile::Operand as_fixed(const Element (&weights)[Tile::kSums]) {
    return bits_of<typename Tile::Operand>(weights);
  }
};

}  // namespace holdfast::kernels::hip
