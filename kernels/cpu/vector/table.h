// The vectorised loops of the cpu op set: single-threaded, on a range that the caller has cut, one table per instruction set.
//
// Promises: the result for a range depends on nothing but the arguments and the instruction set. Ranges may be odd;
// pointers need only the alignment of their element. Reductions run in an order fixed by the range's length.
// `E` is the activation element: float, bfloat16 or float16.
#pragma once

#include <cstdint>

#include "kernels/adamw_step.h"
#include "kernels/cpu/product_shape.h"
#include "kernels/cpu/vector/int8.h"
#include "kernels/dropout.h"

namespace holdfast::kernels::cpu {

// Loops that read or write activations.
struct ElementLoops {
  void (*to_float)(float* out, const void* in, int64_t count);  // times one: exact
  void (*from_float)(void* out, const float* in, int64_t count);
  // out = in * factor
  void (*scaled_to_float)(float* out, const void* in, float factor, int64_t count);
  void (*scaled_from_float)(void* out, const float* in, float factor, int64_t count);
  void (*scaled)(void* out, const void* in, float factor, int64_t count);
  // total += the elements of `in`, as floats
  void (*accumulate)(float* total, const void* in, int64_t count);
  float (*dot)(const void* a, const void* b, int64_t count);

  // rows of width C; see DeviceOps
  void (*layernorm_forward)(void* out, float* residual_out, float* mean, float* rstd, const float* residual_in, const void* x,
                            const float* weight, const float* bias, int64_t rows, int64_t C);
  // dweight, dbias (C) += this range's share
  void (*layernorm_backward)(float* dresidual, void* dx, float* dweight, float* dbias, const void* dout, const float* residual,
                             const float* weight, const float* mean, const float* rstd, int64_t rows, int64_t C);

  // One row of a product's output: out = gelu(product + bias), pre_gelu = product + bias; without GELU pre_gelu is null.
  void (*finish_row)(void* out, void* pre_gelu, const float* product, const float* bias, int64_t count);
  void (*gelu_backward)(void* dx, const void* x, const void* dy, int64_t count);
  void (*drop)(void* row, const Dropout& dropout, uint64_t row_key, int64_t count);
};

// Loops on float32 only.
struct FloatLoops {
  void (*add)(float* out, const float* a, const float* b, int64_t count);

  // A row of `width` numbers of which the first `visible` count; a number times `scale` (above 0) is a score:
  // scores = e^(score - largest score), 0 where not visible. *sum is their sum; returns log(sum of e^score).
  float (*softmax_row)(float* scores, float* sum, float scale, int64_t visible, int64_t width);
  // p = e^(p * scale - logsumexp), dp = p * (dp - D); both 0 where not visible.
  void (*softmax_backward_row)(float* p, float* dp, float scale, float logsumexp, float D, int64_t visible, int64_t width);

  // A row of logits: logits = e^(logit - largest); returns largest, *sum is their sum.
  float (*exponentiate_row)(float* logits, float* sum, int64_t count);
  // Puts together pieces of one row that have these largest values and sums: largest[t] = e^(largest[t] - largest of all)
  // / (sum of all * rows), which turns piece t's numbers into softmax / rows. Returns logsumexp - target_logit.
  float (*join_pieces)(float* largest, const float* sums, int64_t pieces, float target_logit, float rows);

  void (*adamw)(float* parameters, float* m, float* v, const float* gradient, int64_t count, const AdamWStep& step);
  void (*nesterov)(float* parameters, float* momentum, const float* gradient, int64_t count, const NesterovStep& step);
  void (*subtract)(float* out, const float* a, const float* b, int64_t count);
  void (*drop)(float* row, const Dropout& dropout, uint64_t row_key, int64_t count);  // dropout.h, from column 0 on
  void (*scale)(float* out, const float* x, int64_t count, float factor);
  double (*sum_of_squares)(const float* x, int64_t count);
  double (*sum)(const float* x, int64_t count);
  float (*abs_max)(const float* x, int64_t count);
  void (*fixed_accumulate)(int32_t* sums, const float* x, int64_t count, int exponent, bool first);
  void (*fixed_accumulate_int16)(int16_t* sums, const float* x, int64_t count, int exponent, bool first);
  void (*fixed_unpack)(float* x, const int32_t* sums, int64_t count, float scale);
  void (*fixed_unpack_int16)(float* x, const int16_t* sums, int64_t count, float scale);
};

struct VectorTable {
  ElementLoops float32, bfloat16, float16;
  FloatLoops floats;
  ProductLoops product;  // of float32 operands
  // The same, with the same bits, for a b of which all elements are of 16 bits, and that is packed as such.
  ProductLoops narrow_bfloat16, narrow_float16;
  Int8Loops int8;
};

// To be called only on a machine that has the instructions.
namespace avx2 {
const VectorTable& table();
}
namespace avx512 {
const VectorTable& table();
}

}  // namespace holdfast::kernels::cpu
