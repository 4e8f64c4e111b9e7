// AdamW (Loshchilov, Hutter 2019, algorithm 2), Nesterov momentum, and the sums that training steers by, plain.
//   g = gradient * gradient_scale;   m = beta1 m + (1 - beta1) g;   v = beta2 v + (1 - beta2) g^2
//   p = p - learning_rate * (m / beta1_correction / (sqrt(v / beta2_correction) + epsilon) + weight_decay * p)
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/ops.h"

namespace holdfast::kernels::ref {

template <typename Real>
void adamw(Real* parameters, Real* m, Real* v, const Real* gradient, int64_t count, const AdamWStep& step) {
  const Real beta1 = step.beta1, beta2 = step.beta2, m_correction = step.beta1_correction, v_correction = step.beta2_correction;
  for (int64_t i = 0; i < count; ++i) {
    const Real g = gradient[i] * static_cast<Real>(step.gradient_scale);
    m[i] = beta1 * m[i] + (Real(1) - beta1) * g;
    v[i] = beta2 * v[i] + (Real(1) - beta2) * (g * g);
    const Real update = (m[i] / m_correction) / (std::sqrt(v[i] / v_correction) + static_cast<Real>(step.epsilon));
    parameters[i] -= static_cast<Real>(step.learning_rate) * (update + static_cast<Real>(step.weight_decay) * parameters[i]);
  }
}

template <typename Real>
void nesterov(Real* parameters, Real* momentum, const Real* gradient, int64_t count, const NesterovStep& step) {
  const Real rate = step.learning_rate, keep = step.momentum;
  for (int64_t i = 0; i < count; ++i) {
    momentum[i] = keep * momentum[i] + gradient[i];
    parameters[i] -= rate * (gradient[i] + keep * momentum[i]);
  }
}

inline void subtract(float* out, const float* a, const float* b, int64_t count) {
  for (int64_t i = 0; i < count; ++i) out[i] = a[i] - b[i];
}

inline void scale(float* out, const float* x, int64_t count, float factor) {
  for (int64_t i = 0; i < count; ++i) out[i] = x[i] * factor;
}

inline double sum_of_squares(const float* x, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return sum;
}

inline double sum(const float* x, int64_t count) {
  double total = 0;
  for (int64_t i = 0; i < count; ++i) total += static_cast<double>(x[i]);
  return total;
}

}  // namespace holdfast::kernels::ref
