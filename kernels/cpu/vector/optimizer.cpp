// AdamW and the sums training steers by; formula in kernels/ref/optimizer.h. Compiled once per instruction set (see fill.h).
// AdamW has no fma and no reduction, only operations that IEEE 754 rounds correctly: its bits are those of the reference.
// Bytes: AdamW 16 read and 12 written per element, so it runs at the speed of memory; the sums read 4.
#include "kernels/cpu/vector/fill.h"
#include "kernels/cpu/vector/lanes.h"

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

double sum_of_squares(const float* x, int64_t count) {
  Doubles total = zero_doubles();
  sweep(count, [&](int64_t i, auto part) {
    const Doubles wide = to_doubles(load(x + i, part));
    total = total + wide * wide;
  });
  return sum_of_lanes(total);
}

double sum(const float* x, int64_t count) {
  Doubles total = zero_doubles();
  sweep(count, [&](int64_t i, auto part) { total = total + to_doubles(load(x + i, part)); });
  return sum_of_lanes(total);
}

}  // namespace

void fill_optimizer(VectorTable& table) {
  table.floats.adamw = adamw;
  table.floats.sum_of_squares = sum_of_squares;
  table.floats.sum = sum;
}

}  // namespace holdfast::kernels::cpu::HOLDFAST_VECTOR_ISA
