// Matrix products on the matrix units of CPUs with AMX, in one thread.
//
// bfloat16 operands are multiplied as they are. float32 operands are cut into three bfloat16 parts each, x = h + m + l, which
// is exact for |x| above 2^-102 and below the largest bfloat16; of the nine products of parts the six that matter are summed,
// the small ones first: hl, hm, mm, mh, lh, then hh. The omitted part is below 2^-25 of each product, less than float32 rounds
// away (Henry, Tang, Heinecke 2019, "Leveraging the bfloat16 Artificial Intelligence Datatype for Higher-Precision
// Computations").
#pragma once

#include "kernels/cpu/product_shape.h"

namespace holdfast::kernels::cpu::amx {

// Whether this CPU has the units and the system lets this process use them; asks the system on the first call. Any thread.
bool usable();

// To be called only where usable().
const ProductLoops& product_loops();

}  // namespace holdfast::kernels::cpu::amx
