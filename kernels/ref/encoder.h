// Token and position embeddings, plain. Letters as in kernels/ops.h.
// Throughout kernels/ref: `Real` is what is computed in: float in the op set, double where a test takes differences;
// `Element` is what activations are stored as.
#pragma once

#include <cstdint>

namespace holdfast::kernels::ref {

// out[n, c] = wte[tokens[n], c] + wpe[n mod T, c]
template <typename Real>
void encoder_forward(Real* out, const int32_t* tokens, const Real* wte, const Real* wpe, int64_t B, int64_t T, int64_t C) {
  for (int64_t n = 0; n < B * T; ++n) {
    for (int64_t c = 0; c < C; ++c) out[n * C + c] = wte[tokens[n] * C + c] + wpe[(n % T) * C + c];
  }
}

// dwte[rows[n], c] += dout[n, c]
template <typename Real>
void encoder_backward_tokens(Real* dwte, const Real* dout, const int32_t* rows, int64_t N, int64_t C) {
  for (int64_t n = 0; n < N; ++n) {
    for (int64_t c = 0; c < C; ++c) dwte[rows[n] * C + c] += dout[n * C + c];
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
