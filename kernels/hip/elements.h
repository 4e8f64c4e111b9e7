// Kernels over elements, each by itself: the formulas are those of kernels/ref, the letters those of kernels/ops.h.
//
// A thread does elements that are a grid apart. Limits: none; counts are 64-bit. `Real` is float: kernels are templates, since
// the compilers do not let them be inline.
#pragma once

#include "kernels/adamw_step.h"
#include "kernels/hip/portable.h"

namespace holdfast::kernels::hip {

struct Span64 {
  int64_t first, step;
};

// The elements of this thread: first, first + step, ...
__device__ inline Span64 own_elements() {
  const auto threads = static_cast<int64_t>(blockDim.x);
  return {static_cast<int64_t>(blockIdx.x) * threads + static_cast<int64_t>(threadIdx.x),
          static_cast<int64_t>(gridDim.x) * threads};
}

template <typename Element>
__global__ void cast_elements(Element* out, const float* in, int64_t count) {
  const auto [first, step] = own_elements();
  for (int64_t i = first; i < count; i += step) out[i] = narrow<Element>(in[i]);
}

__device__ inline float gelu(float x) {
  const float u = 0.7978845608028654F * (x + 0.044715F * x * x * x);
  return 0.5F * x * (1.0F + tanhf(u));
}

__device__ inline float gelu_slope(float x) {
  const float u = 0.7978845608028654F * (x + 0.044715F * x * x * x);
  const float du = 0.7978845608028654F * (1.0F + 3 * 0.044715F * x * x);
  const float t = tanhf(u);
  return 0.5F * (1.0F + t) + 0.5F * x * (1.0F - t * t) * du;
}

template <typename Element>
__global__ void gelu_backward(Element* dx, const Element* x, const Element* dy, int64_t count) {
  const auto [first, step] = own_elements();
  for (int64_t i = first; i < count; i += step) dx[i] = narrow<Element>(widen(dy[i]) * gelu_slope(widen(x[i])));
}

template <typename Real>
__global__ void adamw(Real* parameters, Real* m, Real* v, const Real* gradient, int64_t count, AdamWStep by) {
  const auto [first, step] = own_elements();
  for (int64_t i = first; i < count; i += step) {
    const Real g = gradient[i] * by.gradient_scale;
    m[i] = by.beta1 * m[i] + (1.0F - by.beta1) * g;
    v[i] = by.beta2 * v[i] + (1.0F - by.beta2) * (g * g);
    const Real update = (m[i] / by.beta1_correction) / (sqrtf(v[i] / by.beta2_correction) + by.epsilon);
    parameters[i] -= by.learning_rate * (update + by.weight_decay * parameters[i]);
  }
}

template <typename Real>
__global__ void nesterov(Real* parameters, Real* momentum, const Real* gradient, int64_t count, NesterovStep by) {
  const auto [first, step] = own_elements();
  for (int64_t i = first; i < count; i += step) {
    momentum[i] = by.momentum * momentum[i] + gradient[i];
    parameters[i] -= by.learning_rate * (gradient[i] + by.momentum * momentum[i]);
  }
}

template <typename Real>
__global__ void subtract(Real* out, const Real* a, const Real* b, int64_t count) {
  const auto [first, step] = own_elements();
  for (int64_t i = first; i < count; i += step) out[i] = a[i] - b[i];
}

template <typename Real>
__global__ void scale_elements(Real* out, const Real* x, int64_t count, Real factor) {
  const auto [first, step] = own_elements();
  for (int64_t i = first; i < count; i += step) out[i] = x[i] * factor;
}

// `scale` is a power of two, and results are below 2^31: the product is exact or far below 1/2, so rintf is the only rounding.
template <typename Integer>
__global__ void fixed_accumulate(Integer* sums, const float* x, int64_t count, float scale, bool is_first) {
  const auto [first, step] = own_elements();
  for (int64_t i = first; i < count; i += step) {
    const auto rounded = static_cast<int32_t>(rintf(x[i] * scale));
    sums[i] = static_cast<Integer>((is_first ? 0 : sums[i]) + rounded);
  }
}

// No __restrict__: int32 sums may be where x is.
template <typename Integer>
__global__ void fixed_unpack(float* x, const Integer* sums, int64_t count, float scale) {
  const auto [first, step] = own_elements();
  for (int64_t i = first; i < count; i += step) x[i] = static_cast<float>(sums[i]) * scale;
}

template <typename Real>
__global__ void float_accumulate(Real* sums, const Real* x, int64_t count, bool is_first) {
  const auto [first, step] = own_elements();
  for (int64_t i = first; i < count; i += step) sums[i] = is_first ? x[i] : sums[i] + x[i];
}

// count = R * C; ids are distinct, so no two threads have the same sum.
template <typename Number>
__global__ void add_rows(Number* sums, const Number* rows, const int32_t* ids, int64_t count, int64_t C) {
  const auto [first, step] = own_elements();
  for (int64_t i = first; i < count; i += step) {
    Number& sum = sums[ids[i / C] * C + i % C];
    sum = static_cast<Number>(sum + rows[i]);
  }
}

}  // namespace holdfast::kernels::hip
