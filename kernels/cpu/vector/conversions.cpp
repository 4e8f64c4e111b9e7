// Element conversions and the plainest sums. Compiled once per instruction set (see fill.h).
// Bytes moved: each input once, each output once.
#include "kernels/cpu/vector/fill.h"
#include "kernels/cpu/vector/sweeps.h"

namespace holdfast::kernels::cpu::HOLDFAST_VECTOR_ISA {
namespace {

template <typename E>
void to_float(float* out, const void* in, int64_t count) {
  const E* x = static_cast<const E*>(in);
  sweep(count, [&](int64_t i, auto part) { store(out + i, load(x + i, part), part); });
}

template <typename E>
void from_float(void* out, const float* in, int64_t count) {
  E* y = static_cast<E*>(out);
  sweep(count, [&](int64_t i, auto part) { store(y + i, load(in + i, part), part); });
}

template <typename E>
void scaled_to_float(float* out, const void* in, float factor, int64_t count) {
  const E* x = static_cast<const E*>(in);
  sweep(count, [&](int64_t i, auto part) { store(out + i, load(x + i, part) * broadcast(factor), part); });
}

template <typename E>
void scaled_from_float(void* out, const float* in, float factor, int64_t count) {
  E* y = static_cast<E*>(out);
  sweep(count, [&](int64_t i, auto part) { store(y + i, load(in + i, part) * broadcast(factor), part); });
}

template <typename E>
void scaled(void* out, const void* in, float factor, int64_t count) {
  const E* x = static_cast<const E*>(in);
  E* y = static_cast<E*>(out);
  sweep(count, [&](int64_t i, auto part) { store(y + i, load(x + i, part) * broadcast(factor), part); });
}

template <typename E>
void accumulate(float* total, const void* in, int64_t count) {
  const E* x = static_cast<const E*>(in);
  sweep(count, [&](int64_t i, auto part) { store(total + i, load(total + i, part) + load(x + i, part), part); });
}

template <typename E>
float dot(const void* a, const void* b, int64_t count) {
  const E* x = static_cast<const E*>(a);
  const E* y = static_cast<const E*>(b);
  return sum_of_terms(count, [&](int64_t i, auto part) { return load(x + i, part) * load(y + i, part); });
}

void add(float* out, const float* a, const float* b, int64_t count) {
  sweep(count, [&](int64_t i, auto part) { store(out + i, load(a + i, part) + load(b + i, part), part); });
}

template <typename E>
void fill(ElementLoops& loops) {
  loops.to_float = to_float<E>;
  loops.from_float = from_float<E>;
  loops.scaled_to_float = scaled_to_float<E>;
  loops.scaled_from_float = scaled_from_float<E>;
  loops.scaled = scaled<E>;
  loops.accumulate = accumulate<E>;
  loops.dot = dot<E>;
}

}  // namespace

void fill_conversions(VectorTable& table) {
  fill<float>(table.float32);
  fill<Bf16>(table.bfloat16);
  fill<Fp16>(table.float16);
  table.floats.add = add;
}

}  // namespace holdfast::kernels::cpu::HOLDFAST_VECTOR_ISA
