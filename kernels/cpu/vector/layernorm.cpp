// LayerNorm rows, formulas and names as in kernels/ref/layernorm.h. Compiled once per instruction set (see fill.h).
// Rows are read from memory once and stay in the first-level cache for their later passes.
// Bytes: forward (4 + e) C read, (4 + e) C written per row; backward (8 + e) C read, (4 + e) C written; e = element size.
#include "kernels/cpu/vector/fill.h"
#include "kernels/cpu/vector/sweeps.h"

namespace holdfast::kernels::cpu::HOLDFAST_VECTOR_ISA {
namespace {

constexpr int64_t kRowsAtOnce = 4;

// residual_out = residual_in + x; the average of the row that is to be normalised.
template <typename E>
float add_and_average(float* residual_out, const float* residual_in, const E* x, int64_t C) {
  const float sum = sum_of_terms(C, [&](int64_t c, auto part) {
    Floats r = load(residual_in + c, part);
    if (x != nullptr) {
      r = r + load(x + c, part);
      store(residual_out + c, r, part);
    }
    return r;
  });
  return sum / static_cast<float>(C);
}

float reciprocal_deviation(const float* row, float mean, int64_t C) {
  const float squares = sum_of_terms(C, [&](int64_t c, auto part) {
    const Floats d = keep(load(row + c, part) - broadcast(mean), broadcast(0.0f), part);
    return d * d;
  });
  return 1.0f / __builtin_sqrtf(squares / static_cast<float>(C) + 1e-5f);
}

template <typename E>
void layernorm_forward(void* out, float* residual_out, float* mean, float* rstd, const float* residual_in, const void* x,
                       const float* weight, const float* bias, int64_t rows, int64_t C) {
  E* y = static_cast<E*>(out);
  const E* addend = static_cast<const E*>(x);
  const float* normalised = x == nullptr ? residual_in : residual_out;
  // Each pass over several rows before the next: a row's passes wait for each other, those of different rows do not.
  for (int64_t first = 0; first < rows; first += kRowsAtOnce) {
    const int64_t end = first + kRowsAtOnce < rows ? first + kRowsAtOnce : rows;
    for (int64_t n = first; n < end; ++n) {
      mean[n] = x == nullptr ? add_and_average<E>(nullptr, residual_in + n * C, nullptr, C)
                             : add_and_average(residual_out + n * C, residual_in + n * C, addend + n * C, C);
    }
    for (int64_t n = first; n < end; ++n) rstd[n] = reciprocal_deviation(normalised + n * C, mean[n], C);
    for (int64_t n = first; n < end; ++n) {
      const Floats m = broadcast(mean[n]), s = broadcast(rstd[n]);
      sweep(C, [&](int64_t c, auto part) {
        const Floats h = (load(normalised + n * C + c, part) - m) * s;
        store(y + n * C + c, fma(h, load(weight + c, part), load(bias + c, part)), part);
      });
    }
  }
}

template <typename E>
void layernorm_backward_row(float* dresidual, E* dx, float* dweight, float* dbias, const E* dout, const float* residual,
                            const float* weight, float mean, float rstd, int64_t C) {
  Floats sum_g = broadcast(0.0f), sum_gh = broadcast(0.0f);
  sweep(C, [&](int64_t c, auto part) {
    const Floats d = load(dout + c, part);  // 0 beyond the row, and so is all that is summed
    const Floats h = (load(residual + c, part) - broadcast(mean)) * broadcast(rstd);
    const Floats g = d * load(weight + c, part);
    sum_g = sum_g + g;
    sum_gh = fma(g, h, sum_gh);
    store(dweight + c, fma(d, h, load(dweight + c, part)), part);
    store(dbias + c, load(dbias + c, part) + d, part);
  });
  const Floats average_g = broadcast(sum_of_lanes(sum_g) / static_cast<float>(C));
  const Floats average_gh = broadcast(sum_of_lanes(sum_gh) / static_cast<float>(C));
  sweep(C, [&](int64_t c, auto part) {
    const Floats h = (load(residual + c, part) - broadcast(mean)) * broadcast(rstd);
    const Floats g = load(dout + c, part) * load(weight + c, part);
    const Floats d = fma(broadcast(rstd), g - average_g - h * average_gh, load(dresidual + c, part));
    store(dresidual + c, d, part);
    if (dx != nullptr) store(dx + c, d, part);
  });
}

template <typename E>
void layernorm_backward(float* dresidual, void* dx, float* dweight, float* dbias, const void* dout, const float* residual,
                        const float* weight, const float* mean, const float* rstd, int64_t rows, int64_t C) {
  E* copy = static_cast<E*>(dx);
  for (int64_t n = 0; n < rows; ++n) {
    layernorm_backward_row(dresidual + n * C, copy == nullptr ? nullptr : copy + n * C, dweight, dbias,
                           static_cast<const E*>(dout) + n * C, residual + n * C, weight, mean[n], rstd[n], C);
  }
}

}  // namespace

void fill_layernorm(VectorTable& table) {
  table.float32.layernorm_forward = layernorm_forward<float>;
  table.float32.layernorm_backward = layernorm_backward<float>;
  table.bfloat16.layernorm_forward = layernorm_forward<Bf16>;
  table.bfloat16.layernorm_backward = layernorm_backward<Bf16>;
  table.float16.layernorm_forward = layernorm_forward<Fp16>;
  table.float16.layernorm_backward = layernorm_backward<Fp16>;
}

}  // namespace holdfast::kernels::cpu::HOLDFAST_VECTOR_ISA
