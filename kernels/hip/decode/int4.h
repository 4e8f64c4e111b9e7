// Weights of 4 bits: WeightForm::kInt4 in decode_ops.h, in the form of int4.h.
#pragma once

#include "kernels/decode_ops.h"
#include "kernels/hip/elements.h"
#include "kernels/int4.h"

namespace holdfast::kernels::hip {

// The groups of rows of w (count, IC), a thread each: to_int4 of int4.h. groups: int4_groups(IC), which a GPU cannot call.
template <typename Element>
__global__ void rows_as_int4(Int4Group* to, const Element* w, int64_t count, int64_t IC, int64_t groups) {
  const auto [first, step] = own_elements();
  for (int64_t g = first; g < count * groups; g += step) {
    const int64_t from = g % groups * kInt4Group, length = IC - from < kInt4Group ? IC - from : kInt4Group;
    const Element* const x = w + g / groups * IC + from;
    float extreme = 0;
    bool is_finite = true;
    for (int64_t i = 0; i < length; ++i) {
      const float value = widen(x[i]);
      is_finite = is_finite && fabsf(value) < INFINITY;
      if (fabsf(value) > fabsf(extreme)) extreme = value;
    }
    const bool is_zero = fabsf(extreme) < kLeastInt8;
    const auto scale = narrow<BFloat16>(!is_finite ? NAN : is_zero ? 0.0F : extreme / -8.0F);
    Int4Group group;
    group.scale = scale.bits;
    for (int64_t i = 0; i < kInt4Group; ++i) {
      const bool counts = is_finite && !is_zero && i < length;
      const float q = counts ? fminf(fmaxf(rintf(widen(x[i]) / widen(scale)), -8.0F), 7.0F) : 0.0F;
      const auto four = static_cast<unsigned>(static_cast<int>(q) + 8);
      if (i < kInt4Group / 2) {
        group.pairs[i] = static_cast<uint8_t>(four);
      } else {
        group.pairs[i - kInt4Group / 2] |= static_cast<uint8_t>(four << 4U);
      }
    }
    to[g] = group;
  }
}

// out (count, IC) = what the groups mean.
template <typename Element>
__global__ void rows_of_int4(Element* out, const Int4Group* groups, int64_t count, int64_t IC, int64_t groups_of_row) {
  const auto [first, step] = own_elements();
  for (int64_t i = first; i < count * IC; i += step) {
    const int64_t c = i % IC, j = c % kInt4Group;
    const Int4Group& group = groups[i / IC * groups_of_row + c / kInt4Group];
    const int pair = group.pairs[j % (kInt4Group / 2)];
    const int q = (j < kInt4Group / 2 ? pair & 15 : pair >> 4) - 8;
    out[i] = narrow<Element>(static_cast<float>(q) * widen(BFloat16{group.scale}));
  }
}

}  // namespace holdfast::kernels::hip
