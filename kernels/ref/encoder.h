// Token and position embeddings, plain. Letters as in kernels/ops.h.
// Throughout kernels/ref: `Real` is what is computed in: float in the op set, double where a test takes differences;
// `Element` is what activations are stored as.
#pragma once

#include <cstdint>

#include "kernels/ops.h"

namespace holdfast::kernels::ref {

// out[n, c] = wte[tokens[n], c] + wpe[n mod T, c]
template <typename Real, typename Element>
void encoder_forward(Real* out, const int32_t* tokens, const Element* wte, const Real* wpe, int64_t B, int64_t T, int64_t C) {
  for (int64_t n = 0; n < B * T; ++n) {
    for (int64_t c = 0; c < C; ++c) out[n * C + c] = static_cast<Real>(wte[tokens[n] * C + c]) + wpe[(n % T) * C + c];
  }
}

// dwte[row of r, c] += dout[n, c] for the positions n of each run r
template <typename Real>
void encoder_backward_tokens(Real* dwte, const Real* dout, const TokenRuns& runs, int64_t C) {
  for (int64_t r = 0; r < runs.R; ++r) {
    Real* const row = dwte + (runs.ids == nullptr ? r : runs.ids[r]) * C;
    for (int64_t i = runs.starts[r]; i < runs.starts[r + 1]; ++i) {
      for (int64_t c = 0; c < C; ++c) row[c] += dout[runs.positions[i] * C + c];
    }
  }
}

// dwpe[t, c] = sum over b of dout[b, t, c]
template <typename Real>
void encoder_backward_positions(Real* dwpe, const Real* dout, int64_t B, int64_t T, int64_t C) {
  for (int64_t t = 0; t < T; ++t) {
    for (int64_t c = 0; c < C; ++c) {
      Real sum = 0;
      for (int64_t b = 0; b < B; ++b) sum += dout[(b * T + t) * C + c];
      dwpe[t * C + c] = sum;
    }
  }
}

}  // namespace holdfast::kernels::ref
