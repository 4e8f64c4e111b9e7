// Rows of a weight of 4 bits side by side, as the columns of a product's right operand, so that a vector has numbers of as many
// rows. Plain data, for sources of any instruction set.
#pragma once

#include <cstdint>

#include "kernels/int4.h"

namespace holdfast::kernels::cpu {

struct Int4Square {  // a group of each of kLines rows
  static constexpr int64_t kLines = 16;
  uint16_t scales[kLines];                // bfloat16
  uint8_t pairs[kInt4Group / 2][kLines];  // [i]: numbers 2 i (lower bits) and 2 i + 1, each 8 more than it is
};

// The type that numbers, times their scales, are rounded to where operands are floats.
enum class Int4Rounding : uint8_t { kNone, kBFloat16, kFloat16 };

struct Int4Columns {
  int64_t groups;             // of a row
  const Int4Square* squares;  // (columns / kLines, groups)
  Int4Rounding rounding;
};

}  // namespace holdfast::kernels::cpu
