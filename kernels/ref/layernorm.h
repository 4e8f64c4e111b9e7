// LayerNorm with the residual addition before it (Ba, Kiros, Hinton 2016, eq. 4), plain.
//   y = (r - mean) * rstd * weight + bias,   rstd = 1 / sqrt(variance + 1e-5)
#pragma once

#include <cmath>
#include <cstdint>

namespace holdfast::kernels::ref {

template <typename Real, typename Element>
void layernorm_forward(Element* out, Real* residual_out, Real* mean, Real* rstd, const Real* residual_in, const Element* x,
                       const Real* weight, const Real* bias, int64_t N, int64_t C) {
  for (int64_t n = 0; n < N; ++n) {
    const Real* row = residual_in + n * C;  // (C)
    if (x != nullptr) {
      for (int64_t c = 0; c < C; ++c) residual_out[n * C + c] = row[c] + static_cast<Real>(x[n * C + c]);
      row = residual_out + n * C;
    }
    Real sum = 0;
    for (int64_t c = 0; c < C; ++c) sum += row[c];
    const Real m = sum / static_cast<Real>(C);
    Real squares = 0;
    for (int64_t c = 0; c < C; ++c) squares += (row[c] - m) * (row[c] - m);
    const Real s = Real(1) / std::sqrt(squares / static_cast<Real>(C) + Real(1e-5));
    for (int64_t c = 0; c < C; ++c) out[n * C + c] = static_cast<Element>((row[c] - m) * s * weight[c] + bias[c]);
    mean[n] = m;
    rstd[n] = s;
  }
}

// With h = (r - mean) * rstd and g = dout * weight:   dr = rstd * (g - average(g) - h * average(g * h)).
template <typename Real, typename Element>
void layernorm_backward(Real* dresidual, Element* dx, Real* dweight, Real* dbias, const Element* dout, const Real* residual,
                        const Real* weight, const Real* mean, const Real* rstd, int64_t N, int64_t C) {
  for (int64_t c = 0; c < C; ++c) dweight[c] = dbias[c] = 0;
  for (int64_t n = 0; n < N; ++n) {
    Real average_g = 0, average_gh = 0;
    for (int64_t c = 0; c < C; ++c) {
      const Real d = static_cast<Real>(dout[n * C + c]);
      const Real h = (residual[n * C + c] - mean[n]) * rstd[n];
      average_g += d * weight[c];
      average_gh += d * weight[c] * h;
      dweight[c] += d * h;
      dbias[c] += d;
    }
    average_g /= static_cast<Real>(C);
    average_gh /= static_cast<Real>(C);
    for (int64_t c = 0; c < C; ++c) {
      const Real g = static_cast<Real>(dout[n * C + c]) * weight[c];
      const Real h = (residual[n * C + c] - mean[n]) * rstd[n];
      dresidual[n * C + c] += rstd[n] * (g - average_g - h * average_gh);
      if (dx != nullptr) dx[n * C + c] = static_cast<Element>(dresidual[n * C + c]);
    }
  }
}

}  // namespace holdfast::kernels::ref
