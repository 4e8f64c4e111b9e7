// How a table is put together: each source of this folder fills in the loops it has, once per instruction set.
// HOLDFAST_VECTOR_ISA is the namespace (avx2, avx512), defined on the command line with the flags that go with it.
#pragma once

#include "kernels/cpu/vector/table.h"

namespace holdfast::kernels::cpu::HOLDFAST_VECTOR_ISA {

void fill_conversions(VectorTable& table);
void fill_layernorm(VectorTable& table);
void fill_activations(VectorTable& table);
void fill_softmax(VectorTable& table);
void fill_optimizer(VectorTable& table);
void fill_fixed_point(VectorTable& table);
void fill_product(VectorTable& table);
void fill_dropout(VectorTable& table);
void fill_int8(VectorTable& table);

}  // namespace holdfast::kernels::cpu::HOLDFAST_VECTOR_ISA
