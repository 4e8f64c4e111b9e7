// Cross-entropy over a chunk of logits, a block a row. The formulas are those of kernels/ref/head.h.
#pragma once

#include "kernels/hip/sums.h"

namespace holdfast::kernels::hip {

inline constexpr int kHeadThreads = 512;

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

// The largest of the logits so far, and the sum of exp(logit - largest).
struct SoftmaxSum {
  float largest = -INFINITY, sum = 0;
  template <int Count>
  __device__ void add(const float (&logits)[Count]) {
    float now = largest;
    HOLDFAST_UNROLL
    for (int k = 0; k < Count; ++k) now = fmaxf(now, logits[k]);
    const float offset = -now * kLog2E;
    sum *= exp2_of(fmaf(largest, kLog2E, offset));
    HOLDFAST_UNROLL
    for (int k = 0; k < Count; ++k) sum += exp2_of(fmaf(logits[k], kLog2E, offset));
    largest = now;
  }
};

// The four of a row of logits that begin at 4 * i; a row of Aligned ones begins at a multiple of four elements.
template <bool Aligned>
__device__ inline Four<float> four_of_row(const float* row, int64_t i) {
  if constexpr (Aligned) {
    return four_at(row + 4 * i);
  } else {
    return {{row[4 * i], row[4 * i + 1], row[4 * i + 2], row[4 * i + 3]}};
  }
}

// logsumexp of a row of V logits, by the whole block; every thread has it. The same bits whether Aligned or not.
template <bool Aligned>
__device__ inline float logsumexp_of_row(const float* row, int64_t V) {
  const auto thread = static_cast<int64_t>(threadIdx.x);
  const int64_t fours = V / 4;
  SoftmaxSum own;
  int64_t i = thread;
  for (; i + kHeadThreads < fours; i += 2 * kHeadThreads) {  // eight at once: one more exponential for all of them
    const Four<float> a = four_of_row<Aligned>(row, i), b = four_of_row<Aligned>(row, i + kHeadThreads);
    own.add({a.x[0], a.x[1], a.x[2], a.x[3], b.x[0], b.x[1], b.x[2], b.x[3]});
  }
  if (i < fours) own.add(four_of_row<Aligned>(row, i).x);
  if (4 * fours + thread < V) own.add({row[4 * fours + thread]});
  const float largest = over_row(own.largest, Largest());
  const float own_share = own.sum * exp2_of((own.largest - largest) * kLog2E);
  return largest + logf(over_row(own_share, Sum()));
}

// losses[r] = logsumexp(logits[r]) - logits[r, targets[r]]; and, unless dlogits is null, their gradient times `scale`.
// logits, dlogits (rows, stride), V of each row; between V and stride, a multiple of 4, dlogits becomes 0. Rows begin at
// multiples of four elements.
template <typename Element>
__global__ void __launch_bounds__(kHeadThreads) cross_entropy(float* losses, Element* dlogits, const float* logits,
                                                              const int32_t* targets, int64_t V, int64_t stride, float scale) {
  const auto r = static_cast<int64_t>(blockIdx.x);
  const auto thread = static_cast<int64_t>(threadIdx.x);
  const float* row = logits + r * stride;
  const int64_t fours = V / 4;
  const float normalizer = logsumexp_of_row<true>(row, V);
  const int64_t target = targets[r];
  if (thread == 0) losses[r] = normalizer - row[target];
  if (dlogits == nullptr) return;
  const float offset = -normalizer * kLog2E;
  for (int64_t i = thread; i < stride / 4; i += kHeadThreads) {
    const Four<float> x = four_at(row + 4 * i);
    float d[4];
    HOLDFAST_UNROLL
    for (int k = 0; k < 4; ++k) d[k] = exp2_of(fmaf(x.x[k], kLog2E, offset));
    if (i == target / 4 || i >= fours) {  // few
      HOLDFAST_UNROLL
      for (int k = 0; k < 4; ++k) d[k] = 4 * i + k >= V ? 0.0F : 4 * i + k == target ? d[k] - 1.0F : d[k];
    }
    Four<Element> to;
    HOLDFAST_UNROLL
    for (int k = 0; k < 4; ++k) to.x[k] = narrow<Element>(d[k] * scale);
    store_four(dlogits + r * stride + 4 * i, to);
  }
}

}  // namespace holdfast::kernels::hip
