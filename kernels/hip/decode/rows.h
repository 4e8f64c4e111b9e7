// Kernels over rows of many sequences. The formulas are those of kernels/ref/encoder.h and kernels/ref/head.h.
#pragma once

#include "kernels/hip/elements.h"
#include "kernels/hip/head.h"

namespace holdfast::kernels::hip {

// out (N, C) = wte[tokens] + wpe[positions]; count = N * C. As encoder_forward, but for the positions.
template <typename Element>
__global__ void embed_rows(float* out, const int32_t* tokens, const int32_t* positions, const Element* wte, const float* wpe,
                           int64_t count, int64_t C) {
  const auto [first, step] = own_elements();
  for (int64_t i = first; i < count; i += step) {
    const int64_t n = i / C, c = i % C;
    out[i] = widen(wte[tokens[n] * C + c]) + wpe[positions[n] * C + c];
  }
}

// losses (N, K) = logsumexp(logits (N, V)) - logits[ids (N, K)], with the bits of cross_entropy. Blocks: rows.
template <typename Real>
__global__ void __launch_bounds__(kHeadThreads)
    losses_of_ids(Real* losses, const Real* logits, const int32_t* ids, int64_t K, int64_t V) {
  const auto n = static_cast<int64_t>(blockIdx.x);
  const Real* row = logits + n * V;
  const Real normalizer = logsumexp_of_row<false>(row, V);
  for (int64_t k = static_cast<int64_t>(threadIdx.x); k < K; k += kHeadThreads)
    losses[n * K + k] = normalizer - row[ids[n * K + k]];
}

}  // namespace holdfast::kernels::hip
