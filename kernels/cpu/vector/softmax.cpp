// Softmax rows of attention and of the head. Compiled once per instruction set (see fill.h).
// All loops run over rows that the caller has just written, so they are in a cache.
#include "kernels/cpu/vector/exponential.h"
#include "kernels/cpu/vector/fill.h"
#include "kernels/cpu/vector/sweeps.h"

namespace holdfast::kernels::cpu::HOLDFAST_VECTOR_ISA {
namespace {

float largest_of(const float* x, int64_t count) {
  const Floats least = broadcast(-__builtin_inff());
  Floats most[4] = {least, least, least, least};
  sweep_four(count, [&](int64_t which, int64_t i, auto part) {
    most[which] = larger(keep(load(x + i, part), least, part), most[which]);
  });
  return largest_lane(larger(larger(most[0], most[1]), larger(most[2], most[3])));
}

// x = e^((x - largest) * scale); returns the sum. A NaN anywhere makes the sum NaN, whatever largest_of made of it.
float exponentiate(float* x, float largest, float scale, int64_t count) {
  return sum_of_terms(count, [&](int64_t i, auto part) {
    const Floats e = exponential((load(x + i, part) - broadcast(largest)) * broadcast(scale));
    store(x + i, e, part);
    return keep(e, broadcast(0.0f), part);
  });
}

void zero_from(float* x, int64_t count) {
  sweep(count, [&](int64_t i, auto part) { store(x + i, broadcast(0.0f), part); });
}

float softmax_row(float* scores, float* sum, float scale, int64_t visible, int64_t width) {
  const float largest = largest_of(scores, visible);
  *sum = exponentiate(scores, largest, scale, visible);
  zero_from(scores + visible, width - visible);
  return largest * scale + natural_log(*sum);
}

void softmax_backward_row(float* p, float* dp, float scale, float logsumexp, float D, int64_t visible, int64_t width) {
  sweep(visible, [&](int64_t i, auto part) {
    const Floats e = exponential(load(p + i, part) * broadcast(scale) - broadcast(logsumexp));
    store(p + i, e, part);
    store(dp + i, e * (load(dp + i, part) - broadcast(D)), part);
  });
  zero_from(p + visible, width - visible);
  zero_from(dp + visible, width - visible);
}

float exponentiate_row(float* logits, float* sum, int64_t count) {
  const float largest = largest_of(logits, count);
  *sum = exponentiate(logits, largest, 1.0f, count);
  return largest;
}

float join_pieces(float* largest, const float* sums, int64_t pieces, float target_logit, float rows) {
  const float most = largest_of(largest, pieces);
  Floats total = broadcast(0.0f);
  sweep(pieces, [&](int64_t i, auto part) {
    const Floats weight = exponential(load(largest + i, part) - broadcast(most));
    store(largest + i, weight, part);
    total = fma(keep(weight, broadcast(0.0f), part), load(sums + i, part), total);
  });
  const float sum = sum_of_lanes(total);
  const float factor = 1.0f / (sum * rows);
  sweep(pieces, [&](int64_t i, auto part) { store(largest + i, load(largest + i, part) * broadcast(factor), part); });
  return (most - target_logit) + natural_log(sum);
}

}  // namespace

void fill_softmax(VectorTable& table) {
  table.floats.softmax_row = softmax_row;
  table.floats.softmax_backward_row = softmax_backward_row;
  table.floats.exponentiate_row = exponentiate_row;
  table.floats.join_pieces = join_pieces;
}

}  // namespace holdfast::kernels::cpu::HOLDFAST_VECTOR_ISA
