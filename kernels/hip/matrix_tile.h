// The tile that a wave multiplies at once: C (16, 16) += A (16, 16) * B (16, 16)^T, on the matrix units where there are some.
//
// Both operands lie in shared memory, A's rows are C's, B's rows are C's columns. Element (row, k) of an operand is at
// [row * stride + k], or with ByColumns at [k * stride + row]; what is contiguous begins at a multiple of 16 bytes. Sums are
// float32; products of 16-bit operands are exact. How a tile is spread over lanes is each kind's own affair: `row` and `column`
// say which element of C a lane's i-th sum is. `kLikesColumns`: operands by columns are loaded as quickly as by rows.
// Promises: the same bits whatever else runs. Every lane of the wave calls each function.
#pragma once

#include "kernels/hip/matrix_units.h"

namespace holdfast::kernels::hip {

inline constexpr int kTile = 16;

template <int Wave>
__device__ inline int wave_lane() {
  return static_cast<int>(threadIdx.x) % Wave;
}

// Without matrix units: each lane multiplies out its own elements. float32 everywhere, and 16 bits where there is nothing else.
template <typename Element, int Wave>
struct PlainTile {
  static constexpr bool kLikesColumns = true;
  static constexpr int kSums = kTile * kTile / Wave;
  struct Operand {
    const Element* at;
    int row_stride, k_stride;
  };
  struct Sums {
    float c[kSums];
  };
  __device__ static int row(int lane, int i) { return lane / kTile + Wave / kTile * i; }
  __device__ static int column(int lane, int) { return lane % kTile; }
  template <bool ByColumns = false>
  __device__ static Operand load_a(const Element* at, int stride) {
    return {at, ByColumns ? 1 : stride, ByColumns ? stride : 1};
  }
  template <bool ByColumns = false>
  __device__ static Operand load_b(const Element* at, int stride) {
    return load_a<ByColumns>(at, stride);
  }
  __device__ static void multiply(Sums& sums, const Operand& a, const Operand& b) {
    const int lane = wave_lane<Wave>();
    HOLDFAST_KEEP_LOOP  // tiles are many, and their operands would all be in registers at once
        for (int k = 0; k < kTile; ++k) {
      const float y = widen(b.at[column(lane, 0) * b.row_stride + k * b.k_stride]);
      HOLDFAST_UNROLL
      for (int i = 0; i < kSums; ++i) sums.c[i] = fmaf(widen(a.at[row(lane, i) * a.row_stride + k * a.k_stride]), y, sums.c[i]);
    }
  }
};

// Of the operand's row l % 16, which lane l has, `Count` elements of k from `first_k` on.
template <bool ByColumns, int Count, typename Element>
__device__ inline Run<Count> run_of_row(const Element* at, int stride, int lane, int first_k) {
  Run<Count> run;
  if constexpr (ByColumns) {
    HOLDFAST_UNROLL
    for (int k = 0; k < Count; ++k) run.x[k] = at[(first_k + k) * stride + lane % kTile].bits;
  } else {
    __builtin_memcpy(&run, __builtin_assume_aligned(at + lane % kTile * stride + first_k, alignof(Run<Count>)), sizeof run);
  }
  return run;
}

// RDNA4. Lane l: 8 elements of k from 8 (l / 16) on. C: column l % 16, rows 8 (l / 16) + i.
template <typename Element>
struct Wmma12Tile {
  static constexpr bool kLikesColumns = false;
  static constexpr int kSums = 8;
  using Operand = Run<8>;
  struct Sums {
    float c[kSums];
  };
  __device__ static int row(int lane, int i) { return lane / kTile * 8 + i; }
  __device__ static int column(int lane, int) { return lane % kTile; }
  template <bool ByColumns = false>
  __device__ static Operand load_a(const Element* at, int stride) {
    const int lane = wave_lane<32>();
    return run_of_row<ByColumns, 8>(at, stride, lane, lane / kTile * 8);
  }
  template <bool ByColumns = false>
  __device__ static Operand load_b(const Element* at, int stride) {
    return load_a<ByColumns>(at, stride);
  }
  __device__ static void multiply(Sums& sums, const Operand& a, const Operand& b) { units::wmma12<Element>(a, b, sums.c); }
};

// RDNA3. Lane l: all 16 elements of k, in both halves of the wave alike. C: column l % 16, rows 2 i + l / 16.
template <typename Element>
struct Wmma11Tile {
  static constexpr bool kLikesColumns = false;
  static constexpr int kSums = 8;
  using Operand = Run<16>;
  struct Sums {
    float c[kSums];
  };
  __device__ static int row(int lane, int i) { return 2 * i + lane / kTile; }
  __device__ static int column(int lane, int) { return lane % kTile; }
  template <bool ByColumns = false>
  __device__ static Operand load_a(const Element* at, int stride) {
    return run_of_row<ByColumns, 16>(at, stride, wave_lane<32>(), 0);
  }
  template <bool ByColumns = false>
  __device__ static Operand load_b(const Element* at, int stride) {
    return load_a<ByColumns>(at, stride);
  }
  __device__ static void multiply(Sums& sums, const Operand& a, const Operand& b) { units::wmma11<Element>(a, b, sums.c); }
};

// CDNA, waves of 64. Lane l: 4 elements of k from 4 (l / 16) on. C: column l % 16, rows 4 (l / 16) + i.
template <typename Element>
struct MfmaTile {
  static constexpr bool kLikesColumns = false;
  static constexpr int kSums = 4;
  using Operand = Run<4>;
  struct Sums {
    float c[kSums];
  };
  __device__ static int row(int lane, int i) { return lane / kTile * 4 + i; }
  __device__ static int column(int lane, int) { return lane % kTile; }
  template <bool ByColumns = false>
  __device__ static Operand load_a(const Element* at, int stride) {
    const int lane = wave_lane<64>();
    return run_of_row<ByColumns, 4>(at, stride, lane, lane / kTile * 4);
  }
  template <bool ByColumns = false>
  __device__ static Operand load_b(const Element* at, int stride) {
    return load_a<ByColumns>(at, stride);
  }
  __device__ static void multiply(Sums& sums, const Operand& a, const Operand& b) { units::mfma<Element>(a, b, sums.c); }
};

// NVIDIA: two m16n8k16 side by side. With g = l / 4 and t = l % 4: C: rows g and g + 8, columns 2 t and 2 t + 1 of each half.
template <typename Element>
struct NvidiaTile {
  static constexpr bool kLikesColumns = true;
  static constexpr int kSums = 8;
  struct Operand {
    uint32_t x[4];
  };
  struct Sums {
    float c[kSums];
  };
  __device__ static int row(int lane, int i) { return lane / 4 + i % 4 / 2 * 8; }
  __device__ static int column(int lane, int i) { return i / 4 * 8 + lane % 4 * 2 + i % 2; }
  // Of the four 8 x 8 matrices A's i-th is at row 8 (i % 2), k 8 (i / 2); B's at row 8 (i / 2), k 8 (i % 2).
  template <bool ByColumns = false>
  __device__ static Operand load_a(const Element* at, int stride) {
    const int lane = wave_lane<32>();
    return load<ByColumns>(at, stride, lane / 8 % 2 * 8, lane / kTile * 8, lane % 8);
  }
  template <bool ByColumns = false>
  __device__ static Operand load_b(const Element* at, int stride) {
    const int lane = wave_lane<32>();
    return load<ByColumns>(at, stride, lane / kTile * 8, lane / 8 % 2 * 8, lane % 8);
  }
  __device__ static void multiply(Sums& sums, const Operand& a, const Operand& b) {
    units::mma16816<Element>(sums.c, a.x, b.x);
    units::mma16816<Element>(sums.c + 4, a.x, b.x + 2);
  }

 private:
  // This lane's matrix begins at (row, k); it names the `within`-th line of it, as it lies in memory.
  template <bool ByColumns>
  __device__ static Operand load(const Element* at, int stride, int row, int k, int within) {
    Operand operand;
    units::ldmatrix<ByColumns>(operand.x, ByColumns ? at + (k + within) * stride + row : at + (row + within) * stride + k);
    return operand;
  }
};

// The kind for this device. On the CPU tests choose: HOLDFAST_TILE_OF_32 and HOLDFAST_TILE_OF_64 name kinds for the two waves.
template <typename Element, int Wave>
struct TileOfDevice {
  using Type = PlainTile<Element, Wave>;
};
#if defined(HOLDFAST_WMMA12) || defined(HOLDFAST_WMMA11) || defined(HOLDFAST_NVIDIA_DEVICE) || defined(HOLDFAST_MFMA)
#if defined(HOLDFAST_WMMA12)
template <typename Element>
using UnitTile = Wmma12Tile<Element>;
#elif defined(HOLDFAST_WMMA11)
template <typename Element>
using UnitTile = Wmma11Tile<Element>;
#elif defined(HOLDFAST_MFMA)
template <typename Element>
using UnitTile = MfmaTile<Element>;
#else
template <typename Element>
using UnitTile = NvidiaTile<Element>;
#endif
#if defined(HOLDFAST_MFMA)
inline constexpr int kUnitWave = 64;
#else
inline constexpr int kUnitWave = 32;
#endif
template <>
struct TileOfDevice<BFloat16, kUnitWave> {
  using Type = UnitTile<BFloat16>;
};
#if !defined( \
    __gfx90a__)  // its units take float16 below 2^-14 for 0 (AMD "MI200" ISA guide, MFMA and denormals): gradients vanish
template <>
struct TileOfDevice<Float16, kUnitWave> {
  using Type = UnitTile<Float16>;
};
#endif
#endif
#if defined(HOLDFAST_TILE_OF_32)
template <>
struct TileOfDevice<BFloat16, 32> {
  using Type = HOLDFAST_TILE_OF_32<BFloat16>;
};
template <>
struct TileOfDevice<Float16, 32> {
  using Type = HOLDFAST_TILE_OF_32<Float16>;
};
template <>
struct TileOfDevice<BFloat16, 64> {
  using Type = HOLDFAST_TILE_OF_64<BFloat16>;
};
template <>
struct TileOfDevice<Float16, 64> {
  using Type = HOLDFAST_TILE_OF_64<Float16>;
};
#endif
template <typename Element, int Wave>
using MatrixTile = typename TileOfDevice<Element, Wave>::Type;

}  // namespace holdfast::kernels::hip
