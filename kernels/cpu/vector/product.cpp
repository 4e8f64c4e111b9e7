// Products of float32 operands. Compiled once per instruction set (see fill.h).
#include "kernels/cpu/vector/fill.h"
#include "kernels/cpu/vector/product_loops.h"

namespace holdfast::kernels::cpu::HOLDFAST_VECTOR_ISA {
namespace {

struct Float32 {
  using Cells = FloatCells;
  static Floats multiply_add(Ints a, Ints b, Floats sum) { return fma(floats_of(a), floats_of(b), sum); }
};

}  // namespace

void fill_product(VectorTable& table) {
  table.product = Blocked<Float32>::loops();
  table.narrow_bfloat16 = Blocked<Float32, Bf16>::loops();
  table.narrow_float16 = Blocked<Float32, Fp16>::loops();
}

}  // namespace holdfast::kernels::cpu::HOLDFAST_VECTOR_ISA
