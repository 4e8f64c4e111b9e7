// Weights of 4 bits as they lie in memory (WeightForm::kInt4 in decode_ops.h). For hosts' op sets and for GPUs.
//
// A row of a weight is divided into groups of 32 numbers, the last of which has zeros behind its end; 4.5 bits a number. The
// form is GGML's Q4_0 (ggml-quants.c, quantize_row_q4_0_ref) with a scale of bfloat16, which has float32's range.
#pragma once

#include <cstdint>

namespace holdfast::kernels {

inline constexpr int64_t kInt4Group = 32;

struct Int4Group {
  uint16_t scale;                 // bfloat16
  uint8_t pairs[kInt4Group / 2];  // j: numbers j (lower bits) and j + 16 (upper bits), each 8 more than it is
};
static_assert(sizeof(Int4Group) == 18 && alignof(Int4Group) == 2);

constexpr int64_t int4_groups(int64_t count) {
  return (count + kInt4Group - 1) / kInt4Group;
}

// Of `count` (at most kInt4Group) numbers.
Int4Group to_int4(const float* x, int64_t count);
// out (groups * kInt4Group) = the numbers of the groups, times their scales: plain loops.
void from_int4(float* out, const Int4Group* groups, int64_t count);

}  // namespace holdfast::kernels
