// Products of bfloat16 operands for CPUs with AVX512_BF16.
//
// The instruction adds the two products of a pair to a float32 sum; numbers below 2^-126 count as 0 in it.
#pragma once

#include "kernels/cpu/product_shape.h"

namespace holdfast::kernels::cpu {

// To be called only on a machine that has the instructions. Of shapes with `bfloat16` only.
const ProductLoops& bfloat16_product_loops();

}  // namespace holdfast::kernels::cpu
