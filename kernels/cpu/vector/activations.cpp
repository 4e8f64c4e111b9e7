// Bias and GELU, which follow a matrix product. Compiled once per instruction set (see fill.h).
// The tanh form is written with the logistic function: (1 + tanh u) / 2 = logistic(2u), hence
//   gelu(x) = x s,   gelu'(x) = s + x s (1 - s) 2u',   s = logistic(2u),   u = sqrt(2/pi) (x + 0.044715 x^3)
// which keeps the relative precision of gelu where tanh is near -1.
#include "kernels/cpu/vector/exponential.h"
#include "kernels/cpu/vector/fill.h"
#include "kernels/cpu/vector/sweeps.h"

namespace holdfast::kernels::cpu::HOLDFAST_VECTOR_ISA {
namespace {

constexpr float kTwoRoot = 1.5957691216057308f;  // 2 sqrt(2/pi)
constexpr float kCubic = 0.044715f;

inline Floats gate(Floats x) {
  const Floats cubic = fma(x * x, broadcast(kCubic), broadcast(1.0f));
  return logistic(x * cubic * broadcast(kTwoRoot));
}

inline Floats slope(Floats x) {
  const Floats s = gate(x);
  const Floats twice_du = fma(x * x, broadcast(3 * kCubic * kTwoRoot), broadcast(kTwoRoot));
  return fma(x * s * (broadcast(1.0f) - s), twice_du, s);
}

// Through memory in the element type: the value that backward will see is the one GELU is taken of.
template <typename E>
void finish_row(void* out, void* pre_gelu, const float* product, const float* bias, int64_t count) {
  E* y = static_cast<E*>(out);
  E* before = static_cast<E*>(pre_gelu);
  if (before == nullptr) {
    sweep(count, [&](int64_t i, auto part) { store(y + i, load(product + i, part) + load(bias + i, part), part); });
    return;
  }
  sweep(count, [&](int64_t i, auto part) {
    store(before + i, load(product + i, part) + load(bias + i, part), part);
    const Floats x = load(before + i, part);
    store(y + i, x * gate(x), part);
  });
}

template <typename E>
void gelu_backward(void* dx, const void* x, const void* dy, int64_t count) {
  sweep(count, [&](int64_t i, auto part) {
    const Floats d = load(static_cast<const E*>(dy) + i, part);
    store(static_cast<E*>(dx) + i, d * slope(load(static_cast<const E*>(x) + i, part)), part);
  });
}

}  // namespace

void fill_activations(VectorTable& table) {
  table.float32.finish_row = finish_row<float>;
  table.float32.gelu_backward = gelu_backward<float>;
  table.bfloat16.finish_row = finish_row<Bf16>;
  table.bfloat16.gelu_backward = gelu_backward<Bf16>;
  table.float16.finish_row = finish_row<Fp16>;
  table.float16.gelu_backward = gelu_backward<Fp16>;
}

}  // namespace holdfast::kernels::cpu::HOLDFAST_VECTOR_ISA
