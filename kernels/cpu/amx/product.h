// Matrix products on the matrix units of CPUs with AMX, in one thread.
//
// bfloat16 operands are multiplied as they are. float32 operands are cut into three bfloat16 parts each, x = h + m + l, which
// is exact for |x| above 2^-102 and below the largest bfloat16; of the nine products of parts the six that matter are summed,
// the small ones first: hl, hm, mm, mh, lh, then hh. What is left out is below 2^-25 of each product, less than float32 rounds
// away (Henry, Tang, Heinecke 2019, "Leveraging the bfloat16 Artificial Intelligence Datatype for Higher-Precision
// Computations").
//
// Promises: sums are float32; the bits of c depend on the shape and the inputs alone: not on caches, threads or libraries. An
// operand that is not finite makes the elements of c that it enters not finite, too.
// Refuses: nothing: the caller has asked usable() once. Bytes: a is read once per call and packed into `scratch`; b is packed
// once, for as many calls as there are.
#pragma once

#include <cstddef>

#include "kernels/cpu/product_shape.h"

namespace holdfast::kernels::cpu::amx {

// Whether this CPU has the units and the system lets this process use them; asks the system on the first call. Any thread.
bool usable();

// b as the units want it. `packed` has packed_bytes(shape), 64-byte aligned.
size_t packed_bytes(const ProductShape& shape);
void pack(const ProductShape& shape, const void* b, void* packed);

// `scratch` has scratch_bytes(shape), 64-byte aligned, one per thread.
size_t scratch_bytes(const ProductShape& shape);
void run(const ProductShape& shape, const void* a, const void* packed_b, float* c, void* scratch);

}  // namespace holdfast::kernels::cpu::amx
