// Dropout on a GPU: the numbers of kernels/dropout.h. Attention's kernels are compiled with NoDropout, too, whose factors are 1
// and cost nothing.
#pragma once

#include "kernels/dropout.h"
#include "kernels/hip/runtime.h"

namespace holdfast::kernels::hip {

struct NoDropout {
  struct Key {};
  __device__ NoDropout of_rows(int64_t) const { return {}; }
  __device__ Key key(int64_t) const { return {}; }
  __device__ float factor(Key, int64_t) const { return 1.0F; }
};

// Rows `first` on, of a site in one pass.
struct DrawnRows {
  using Key = uint64_t;
  uint64_t before_first;  // as few numbers as will do: kernels of wide heads are short of registers
  uint32_t threshold;
  float scale;
  __device__ Key key(int64_t row) const { return dropout_mix(before_first + static_cast<uint64_t>(row)); }
  __device__ float factor(Key key, int64_t column) const {
    return dropout_number(key, static_cast<uint32_t>(column)) < threshold ? 0.0F : scale;
  }
};

// As a kernel is told. `pass` lies in the device's memory: a kernel that comes again as part of a graph reads it anew.
struct DropoutOfPass {
  using Key = DrawnRows::Key;
  Dropout dropout;
  const uint64_t* pass;
  __device__ DrawnRows of_rows(int64_t first) const {
    return {dropout_rows(*pass, dropout.site) + static_cast<uint64_t>(first), dropout.threshold, dropout.scale};
  }
};

inline constexpr int kDropThreads = 256;

// A block a row of C elements.
template <typename Number>
__global__ void drop_rows(Number* x, DropoutOfPass dropout, int64_t C) {
  const auto n = static_cast<int64_t>(blockIdx.x);
  const DrawnRows drawn = dropout.of_rows(n);
  const uint64_t key = drawn.key(0);
  for (int64_t c = threadIdx.x; c < C; c += kDropThreads)
    x[n * C + c] = narrow<Number>(widen(x[n * C + c]) * drawn.factor(key, c));
}

}  // namespace holdfast::kernels::hip
