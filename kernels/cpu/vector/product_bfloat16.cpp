// Products of bfloat16 operands by AVX512_BF16's dot products of two. Compiled for that instruction set alone.
#include "kernels/cpu/vector/product_bfloat16.h"

#include "kernels/cpu/vector/product_loops.h"

namespace holdfast::kernels::cpu {
namespace {

struct BFloat16Pairs {
  using Cells = BFloat16Cells;
  static Floats multiply_add(Ints a, Ints b, Floats sum) {
    return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
  }
};

}  // namespace

const ProductLoops& bfloat16_product_loops() {
  static constexpr ProductLoops loops = Blocked<BFloat16Pairs>::loops();
  return loops;
}

}  // namespace holdfast::kernels::cpu
