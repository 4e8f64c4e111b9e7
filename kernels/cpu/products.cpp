// The loops of each instruction set behind products.h.
#include "kernels/cpu/products.h"

#include "kernels/cpu/amx/product.h"
#include "kernels/cpu/vector/product_bfloat16.h"
#include "kernels/cpu/vector/table.h"

namespace holdfast::kernels::cpu {
const ProductLoops& product_loops(Isa isa, bool bfloat16) {
  switch (isa) {
    case Isa::kAvx2:
      return avx2::table().product;
    case Isa::kAvx512:
      break;
    case Isa::kAvx512Bf16:
      if (bfloat16) return bfloat16_product_loops();
      break;
    case Isa::kAmx:
      return amx::product_loops();
  }
  return avx512::table().product;
}

Products::Products(int threads, Isa isa)
    : float32_(product_loops(isa, false)),
      bfloat16_(product_loops(isa, multiplies_bfloat16(isa))),
      scratch_(static_cast<size_t>(threads)),
      packed_(static_cast<size_t>(threads)) {}

Product Products::prepare(const ProductShape& shape) {
  const Product product = prepared(shape);
  const ProductLoops& loops = *product.loops_;
  for (Scratch& scratch : scratch_) scratch.reserve(loops.scratch_bytes(shape));
  for (Scratch& packed : packed_) packed.reserve(loops.packed_bytes(shape));
  return product;
}

Product Products::prepared(const ProductShape& shape) {
  return prepared(shape, shape.bfloat16 ? bfloat16_ : float32_);
}

Product Products::prepared(const ProductShape& shape, const ProductLoops& loops) {
  return {*this, loops, shape};
}

void Product::run(int thread, const void* a, const void* b, float* c) const {
  run_packed(thread, a, pack_own(thread, b), c);
}

const void* Product::pack_own(int thread, const void* b) const {
  void* const packed = owner_->packed_[static_cast<size_t>(thread)].reserve(0);
  pack(b, packed);
  return packed;
}

void Product::run_packed(int thread, const void* a, const void* packed_b, float* c) const {
  loops_->run(shape_, a, packed_b, c, owner_->scratch_[static_cast<size_t>(thread)].reserve(0));
}

}  // namespace holdfast::kernels::cpu
