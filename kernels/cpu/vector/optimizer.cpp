// AdamW and the sums training steers by; formula in kernels/ref/optimizer.h. Compiled once per instruction set (see fill.h).
// The steps have no fma and no reduction, only operations that IEEE 754 rounds correctly: their bits are those of the
// reference. Bytes per element: AdamW 16 read and 12 written, Nesterov 12 and 8, so they run at the speed of memory; the sums
// read 4.
#include "kernels/cpu/vector/fill.h"
#include "kernels/cpu/vector/sweeps.h"

namespace holdfast::kernels::cpu::HOLDFAST_VECTOR_ISA {
namespace {

void adamw(float* parameters, float* m, float* v, const float* gradient, int64_t count, const AdamWStep& step) {
  const Floats keep_m = broadcast(step.beta1), new_m = broadcast(1.0f - step.beta1);
  const Floats keep_v = broadcast(step.beta2), new_v = broadcast(1.0f - step.beta2);
  const Floats m_correction = broadcast(step.beta1_correction), v_correction = broadcast(step.beta2_correction);
  const Floats rate = broadcast(step.learning_rate), decay = broadcast(step.weight_decay);
  const Floats scale = broadcast(step.gradient_scale), epsilon = broadcast(step.epsilon);
  sweep(count, [&](int64_t i, auto part) {
    const Floats g = load(gradient + i, part) * scale;
    const Floats mi = keep_m * load(m + i, part) + new_m * g;
    const Floats vi = keep_v * load(v + i, part) + new_v * (g * g);
    const Floats update = (mi / m_correction) / (square_root(vi / v_correction) + epsilon);
    const Floats p = load(parameters + i, part);
    store(m + i, mi, part);
    store(v + i, vi, part);
    store(parameters + i, p - rate * (update + decay * p), part);
  });
}

void nesterov(float* parameters, float* momentum, const float* gradient, int64_t count, const NesterovStep& step) {
  const Floats rate = broadcast(step.learning_rate), keep_momentum = broadcast(step.momentum);
  sweep(count, [&](int64_t i, auto part) {
    const Floats g = load(gradient + i, part);
    const Floats b = keep_momentum * load(momentum + i, part) + g;
    store(momentum + i, b, part);
    store(parameters + i, load(parameters + i, part) - rate * (g + keep_momentum * b), part);
  });
}

void subtract(float* out, const float* a, const float* b, int64_t count) {
  sweep(count, [&](int64_t i, auto part) { store(out + i, load(a + i, part) - load(b + i, part), part); });
}

void scale(float* out, const float* x, int64_t count, float factor) {
  const Floats by = broadcast(factor);
  sweep(count, [&](int64_t i, auto part) { store(out + i, load(x + i, part) * by, part); });
}

template <typename Term>
double sum_of_doubles(int64_t count, Term term) {
  Doubles sum[4] = {zero_doubles(), zero_doubles(), zero_doubles(), zero_doubles()};
  sweep_four(count, [&](int64_t which, int64_t i, auto part) { sum[which] = sum[which] + term(i, part); });
  return sum_of_lanes((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

double sum_of_squares(const float* x, int64_t count) {
  return sum_of_doubles(count, [&](int64_t i, auto part) {
    const Doubles wide = to_doubles(load(x + i, part));
    return wide * wide;
  });
}

double sum(const float* x, int64_t count) {
  return sum_of_doubles(count, [&](int64_t i, auto part) { return to_doubles(load(x + i, part)); });
}

}  // namespace

void fill_optimizer(VectorTable& table) {
  table.floats.adamw = adamw;
  table.floats.nesterov = nesterov;
  table.floats.subtract = subtract;
  table.floats.scale = scale;
  table.floats.sum_of_squares = sum_of_squares;
  table.floats.sum = sum;
}

}  // namespace holdfast::kernels::cpu::HOLDFAST_VECTOR_ISA
