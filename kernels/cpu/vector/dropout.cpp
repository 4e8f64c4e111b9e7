// Dropout of a row, in place. Compiled once per instruction set (see fill.h), whose compiler makes the loop over numbers its
// own. The numbers are those of kernels/dropout.h, written again here because an inline function of another instruction set
// might be linked for it.
#include "kernels/dropout.h"

#include "kernels/cpu/vector/fill.h"
#include "kernels/cpu/vector/sweeps.h"

namespace holdfast::kernels::cpu::HOLDFAST_VECTOR_ISA {
namespace {

constexpr int64_t kAtOnce = 64;

void factors(float* out, const Dropout& dropout, uint64_t row_key, int64_t first, int64_t count) {
  const uint32_t low = static_cast<uint32_t>(row_key), high = static_cast<uint32_t>(row_key >> 32U);
  const uint32_t threshold = dropout.threshold;
  const float scale = dropout.scale;
  for (int64_t i = 0; i < count; ++i) {
    uint32_t x = low + static_cast<uint32_t>(first + i) * 0x9e3779b9U;
    x = (x ^ (x >> 16U)) * 0x85ebca6bU;
    x ^= x >> 13U;
    x = (x ^ high) * 0xc2b2ae35U;
    x ^= x >> 16U;
    out[i] = x < threshold ? 0.0F : scale;
  }
}

template <typename E>
void drop_row(E* row, const Dropout& dropout, uint64_t row_key, int64_t count) {
  float factor[kAtOnce];
  for (int64_t at = 0; at < count; at += kAtOnce) {
    const int64_t size = count - at < kAtOnce ? count - at : kAtOnce;
    factors(factor, dropout, row_key, at, size);
    E* const x = row + at;
    sweep(size, [&](int64_t i, auto part) { store(x + i, load(x + i, part) * load(factor + i, part), part); });
  }
}

template <typename E>
void drop(void* row, const Dropout& dropout, uint64_t row_key, int64_t count) {
  drop_row(static_cast<E*>(row), dropout, row_key, count);
}

}  // namespace

void fill_dropout(VectorTable& table) {
  table.float32.drop = drop<float>;
  table.bfloat16.drop = drop<Bf16>;
  table.float16.drop = drop<Fp16>;
  table.floats.drop = drop_row<float>;
}

}  // namespace holdfast::kernels::cpu::HOLDFAST_VECTOR_ISA
