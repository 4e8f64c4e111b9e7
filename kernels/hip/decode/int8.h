// Products of rows of int8: WeightForm::kInt8 in decode_ops.h, whose reference is Int8Decode in kernels/ref/decode.h. Sums of
// whole numbers have one value in any order, so that these products have its bits.
#pragma once

#include "kernels/decode_ops.h"
#include "kernels/hip/elements.h"

namespace holdfast::kernels::hip {

// Rows (count, IC) as whole numbers, zeros behind them up to `depth`, and their scales.
struct Int8Rows {
  static constexpr int64_t kDepthMultiple = static_cast<int64_t>(sizeof(Words));
  int8_t* numbers;  // (count, depth), at a multiple of 16 bytes
  float* scales;    // (count)
  int64_t count, depth;

  static int64_t depth_of(int64_t IC) { return (IC + kDepthMultiple - 1) / kDepthMultiple * kDepthMultiple; }
  static int64_t bytes_of(int64_t count, int64_t IC) { return count * (depth_of(IC) + static_cast<int64_t>(sizeof(float))); }
  // In memory of bytes_of().
  static Int8Rows at(void* memory, int64_t count, int64_t IC) {
    auto* const numbers = static_cast<int8_t*>(memory);
    return {numbers, reinterpret_cast<float*>(numbers + count * depth_of(IC)), count, depth_of(IC)};
  }
};

// x (count, IC) as int8. Blocks: rows by their groups of lanes, of which each has a row.
template <typename Element>
__global__ void rows_as_int8(Int8Rows to, const Element* x, int64_t IC) {
  const int64_t groups = static_cast<int64_t>(blockDim.x) / kLanes;
  const int64_t r = static_cast<int64_t>(blockIdx.x) * groups + static_cast<int64_t>(threadIdx.x) / kLanes;
  const int64_t row = r < to.count ? r : to.count - 1;  // every lane comes to the exchanges
  const Element* const from = x + row * IC;
  float most = 0;
  for (int64_t i = lane(); i < IC; i += kLanes) {
    const float magnitude = fabsf(widen(from[i]));
    most = fmaxf(most, magnitude < INFINITY ? magnitude : INFINITY);  // of a NaN, too
  }
  most = largest_of_lanes(most);
  if (r >= to.count) return;
  const bool is_finite = most < INFINITY, is_zero = !is_finite || most < kLeastInt8;
  const float factor = is_zero ? 0.0F : 127.0F / most;
  for (int64_t i = lane(); i < to.depth; i += kLanes)
    to.numbers[row * to.depth + i] = is_zero || i >= IC ? int8_t{0} : static_cast<int8_t>(rintf(widen(from[i]) * factor));
  if (lane() == 0) to.scales[row] = !is_finite ? NAN : is_zero ? 0.0F : most / 127.0F;
}

// `sum`, and the products of sixteen numbers.
__device__ inline int32_t add_products(int32_t sum, const Words& a, const Words& b) {
  HOLDFAST_UNROLL
  for (int w = 0; w < 4; ++w) {
#if defined(HOLDFAST_NVIDIA_DEVICE)
    sum = __dp4a(static_cast<int>(a.x[w]), static_cast<int>(b.x[w]), sum);
#else
    HOLDFAST_UNROLL
    for (int shift = 0; shift < 32; shift += 8)
      sum += static_cast<int8_t>(a.x[w] >> shift & 0xffU) * static_cast<int8_t>(b.x[w] >> shift & 0xffU);
#endif
  }
  return sum;
}

inline constexpr int kInt8Threads = 128, kInt8Rows = 8;  // rows of `in` that a group of lanes takes at once

// in (N, IC) * weight (OC, IC)^T. A group of lanes has a row of the weight, which it reads once for kInt8Rows rows of `in`.
// Blocks: rows of the weight by their groups, times rows of `in` by kInt8Rows.
template <typename Epilogue>
__global__ void __launch_bounds__(kInt8Threads) product_of_int8(Int8Rows in, Int8Rows weight, Epilogue epilogue) {
  constexpr int64_t kGroups = kInt8Threads / kLanes;
  const int64_t columns = (weight.count + kGroups - 1) / kGroups;
  const auto block = static_cast<int64_t>(blockIdx.x);
  const int64_t column = block % columns * kGroups + static_cast<int64_t>(threadIdx.x) / kLanes;
  const int64_t o = column < weight.count ? column : weight.count - 1;  // every lane comes to the exchanges
  const int64_t first = block / columns * kInt8Rows;
  const auto words = weight.depth / static_cast<int64_t>(sizeof(Words));
  const auto* const of_weight = reinterpret_cast<const Words*>(weight.numbers) + o * words;
  const auto* const of_in = reinterpret_cast<const Words*>(in.numbers);
  int32_t sums[kInt8Rows] = {};
  for (int64_t w = lane(); w < words; w += kLanes) {
    const Words own = of_weight[w];
    HOLDFAST_UNROLL
    for (int r = 0; r < kInt8Rows; ++r) {
      const int64_t n = first + r < in.count ? first + r : in.count - 1;
      sums[r] = add_products(sums[r], own, of_in[n * words + w]);
    }
  }
  HOLDFAST_UNROLL
  for (int r = 0; r < kInt8Rows; ++r) {
    int32_t sum = sums[r];
    for (int distance = kLanes / 2; distance > 0; distance /= 2)
      sum += bits_as<int32_t>(from_lane(bits_as<float>(sum), lane() ^ distance));
    const int64_t n = first + r;
    if (lane() != r || n >= in.count || column >= weight.count) continue;
    epilogue(n, o, static_cast<float>(sum) * (in.scales[n] * weight.scales[o]), epilogue.known(n, o));
  }
}

}  // namespace holdfast::kernels::hip
