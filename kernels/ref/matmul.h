// Matrix products and GELU, plain.
//   gelu(x) = x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))   (Hendrycks, Gimpel 2016, section 2)
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/ops.h"

namespace holdfast::kernels::ref {

template <typename Real>
Real gelu(Real x) {
  const Real u = Real(0.7978845608028654) * (x + Real(0.044715) * x * x * x);
  return Real(0.5) * x * (Real(1) + std::tanh(u));
}

template <typename Real>
Real gelu_slope(Real x) {
  const Real u = Real(0.7978845608028654) * (x + Real(0.044715) * x * x * x);
  const Real du = Real(0.7978845608028654) * (Real(1) + Real(3 * 0.044715) * x * x);
  const Real t = std::tanh(u);
  return Real(0.5) * (Real(1) + t) + Real(0.5) * x * (Real(1) - t * t) * du;
}

// out[n, o] = epilogue(bias[o] + sum over i of in[n, i] * weight[o, i])
template <typename Real, typename Element>
void matmul_forward(Element* out, Element* pre_gelu, const Element* in, const Element* weight, const Real* bias,
                    Epilogue epilogue, int64_t N, int64_t IC, int64_t OC) {
  for (int64_t n = 0; n < N; ++n) {
    for (int64_t o = 0; o < OC; ++o) {
      Real sum = bias[o];
      for (int64_t i = 0; i < IC; ++i) sum += static_cast<Real>(in[n * IC + i]) * static_cast<Real>(weight[o * IC + i]);
      Element& y = out[n * OC + o];
      y = static_cast<Element>(sum);
      if (epilogue == Epilogue::kGelu) {
        pre_gelu[n * OC + o] = y;
        y = static_cast<Element>(gelu(static_cast<Real>(pre_gelu[n * OC + o])));  // of the stored value, as backward sees it
      }
    }
  }
}

template <typename Real, typename Element>
void matmul_backward(Element* din, Real* dweight, Real* dbias, const Element* dout, const Element* in, const Element* weight,
                     int64_t N, int64_t IC, int64_t OC) {
  for (int64_t n = 0; n < N; ++n) {
    for (int64_t i = 0; i < IC; ++i) {
      Real sum = 0;
      for (int64_t o = 0; o < OC; ++o) sum += static_cast<Real>(dout[n * OC + o]) * static_cast<Real>(weight[o * IC + i]);
      din[n * IC + i] = static_cast<Element>(sum);
    }
  }
  for (int64_t o = 0; o < OC; ++o) {
    Real column = 0;
    for (int64_t n = 0; n < N; ++n) column += static_cast<Real>(dout[n * OC + o]);
    dbias[o] = column;
    for (int64_t i = 0; i < IC; ++i) {
      Real sum = 0;
      for (int64_t n = 0; n < N; ++n) sum += static_cast<Real>(dout[n * OC + o]) * static_cast<Real>(in[n * IC + i]);
      dweight[o * IC + i] = sum;
    }
  }
}

template <typename Real, typename Element>
void gelu_backward(Element* dx, const Element* x, const Element* dy, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    dx[i] = static_cast<Element>(static_cast<Real>(dy[i]) * gelu_slope(static_cast<Real>(x[i])));
  }
}

}  // namespace holdfast::kernels::ref
