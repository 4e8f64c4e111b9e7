// Kernels over elements, each by itself: the formulas are those of kernels/ref, the letters those of kernels/ops.h.
//
// A thread does elements that are a grid apart. Limits: none; counts are 64-bit. `Real` is float: kernels are templates, since
// the compilers do not let them be inline.
#pragma once

#include "kernels/adamw_step.h"
#include "kernels/hip/portable.h"

namespace holdfast::kernels::hip {

// Sixteen bytes, the most that a thread reads or writes at once; at a multiple of 16, whatever lies there.
struct [[gnu::may_alias]] alignas(16) Words {
  uint32_t x[4];
};

// Four elements side by side, read and written at once; at a multiple of their size.
template <typename Element>
struct [[gnu::may_alias]] alignas(4 * sizeof(Element)) Four {
  Element x[4];
};
template <typename Element>
__device__ inline Four<Element> four_at(const Element* at) {
  return *reinterpret_cast<const Four<Element>*>(at);
}
template <typename Element>
__device__ inline void store_four(Element* at, const Four<Element>& four) {
  *reinterpret_cast<Four<Element>*>(at) = four;
}

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

// The tanh form of GELU is x * sigmoid(2 u), for (1 + tanh(u)) / 2 = sigmoid(2 u), with u = sqrt(2 / pi) (x + 0.044715 x^3).
struct GeluSigmoid {
  float e, s;  // exp(-2 u), and the sigmoid 1 / (1 + e); 1 - s is e * s
  __device__ explicit GeluSigmoid(float x) {
    constexpr float kTwice = -2 * 0.7978845608028654F * kLog2E;
    e = exp2_of(fminf(kTwice * (x + 0.044715F * x * x * x), 100.0F));  // beyond that s is 0 beside any x
    s = reciprocal_of(1.0F + e);
  }
};

__device__ inline float gelu(float x) {
  return x * GeluSigmoid(x).s;
}

__device__ inline float gelu_slope(float x) {
  const GeluSigmoid at(x);
  const float two_du = 2 * 0.7978845608028654F * (1.0F + 3 * 0.044715F * x * x);
  return at.s + x * two_du * at.s * (at.e * at.s);
}

// y times gelu'(x), for products that their own epilogue does not do it for.
template <typename Element>
__global__ void times_gelu_slope(Element* y, const Element* x, int64_t count) {
  const auto [first, step] = own_elements();
  const auto addresses = reinterpret_cast<uintptr_t>(y) | reinterpret_cast<uintptr_t>(x);
  const int64_t fours = addresses % sizeof(Four<Element>) == 0 ? count / 4 : 0;
  for (int64_t i = first; i < fours; i += step) {
    const Four<Element> a = four_at(x + 4 * i), b = four_at(y + 4 * i);
    Four<Element> d;
    HOLDFAST_UNROLL
    for (int k = 0; k < 4; ++k) d.x[k] = narrow<Element>(widen(b.x[k]) * gelu_slope(widen(a.x[k])));
    store_four(y + 4 * i, d);
  }
  for (int64_t i = 4 * fours + first; i < count; i += step) y[i] = narrow<Element>(widen(y[i]) * gelu_slope(widen(x[i])));
}

template <typename Real>
__global__ void adamw(Real* parameters, Real* m, Real* v, const Real* gradient, int64_t count, AdamWStep by) {
  const auto [first, step] = own_elements();
  for (int64_t i = first; i < count; i += step) {
    const Real g = gradient[i] * by.gradient_scale, parameter = parameters[i];
    const Real m_now = by.beta1 * m[i] + (1.0F - by.beta1) * g, v_now = by.beta2 * v[i] + (1.0F - by.beta2) * (g * g);
    const Real update = (m_now / by.beta1_correction) / (sqrtf(v_now / by.beta2_correction) + by.epsilon);
    m[i] = m_now;
    v[i] = v_now;
    parameters[i] = parameter - by.learning_rate * (update + by.weight_decay * parameter);
  }
}

template <typename Real>
__global__ void nesterov(Real* parameters, Real* momentum, const Real* gradient, int64_t count, NesterovStep by) {
  const auto [first, step] = own_elements();
  for (int64_t i = first; i < count; i += step) {
    const Real g = gradient[i], momentum_now = by.momentum * momentum[i] + g;
    momentum[i] = momentum_now;
    parameters[i] -= by.learning_rate * (g + by.momentum * momentum_now);
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
