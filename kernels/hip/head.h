// Cross-entropy over a chunk of logits, a block a row. The formulas are those of kernels/ref/head.h.
#pragma once

#include "kernels/hip/sums.h"

namespace holdfast::kernels::hip {

inline constexpr int kHeadThreads = 256;

// Over a block's values, in a fixed order; every thread has the result.
template <typename Combine>
__device__ inline float over_row(float value, Combine combine) {
  HOLDFAST_SHARED(float[kHeadThreads / kLanes], groups);
  value = over_lanes(value, combine);
  barrier();  // the last call's are read
  if (lane() == 0) groups[threadIdx.x / kLanes] = value;
  barrier();
  float all = groups[0];
  for (int group = 1; group < kHeadThreads / kLanes; ++group) all = combine(all, groups[group]);
  return all;
}

// losses[r] = logsumexp(logits[r]) - logits[r, targets[r]]; and, unless dlogits is null, their gradient times `scale`.
// logits, dlogits (rows, stride), V of each row; between V and stride dlogits becomes 0.
template <typename Element>
__global__ void cross_entropy(float* losses, Element* dlogits, const float* logits, const int32_t* targets, int64_t V,
                              int64_t stride, float scale) {
  const auto r = static_cast<int64_t>(blockIdx.x);
  const auto thread = static_cast<int64_t>(threadIdx.x);
  const float* row = logits + r * stride;
  // In one pass: the largest so far, and the sum of exp(x - largest).
  float own_largest = -INFINITY, own_sum = 0;
  for (int64_t v = thread; v < V; v += kHeadThreads) {
    const float before = own_largest;
    own_largest = fmaxf(before, row[v]);
    own_sum = own_sum * expf(before - own_largest) + expf(row[v] - own_largest);
  }
  const float largest = over_row(own_largest, Largest());
  const float normalizer = largest + logf(over_row(own_sum * expf(own_largest - largest), Sum()));
  const int64_t target = targets[r];
  if (thread == 0) losses[r] = normalizer - row[target];
  if (dlogits == nullptr) return;
  for (int64_t v = thread; v < stride; v += kHeadThreads) {
    const float d = v < V ? (expf(row[v] - normalizer) - (v == target ? 1.0F : 0.0F)) * scale : 0.0F;
    dlogits[r * stride + v] = narrow<Element>(d);
  }
}

}  // namespace holdfast::kernels::hip
