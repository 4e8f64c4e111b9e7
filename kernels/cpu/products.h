// Matrix products as an op set runs them, each in one thread: which loops do them on this instruction set, and the memory
// that they need. c (m, n) = a (m, k) * b (k, n), or c += with `add`; product_shape.h has the promises.
//
// The loops are ours on every instruction set. oneDNN, which they replaced, cuts a product by the sizes of the caches and the
// threads it sees, so its bits depend on them; and measured beside it (bench/NOTES.md), ours are faster for our shapes.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cpu/isa.h"
#include "kernels/cpu/product_shape.h"
#include "kernels/cpu/scratch.h"

namespace holdfast::kernels::cpu {

// The loops for a shape with `bfloat16`, and for float32. bfloat16 only where multiplies_bfloat16(isa). To be run only on a
// machine that has the instructions.
const ProductLoops& product_loops(Isa isa, bool bfloat16);

class Products;

// A value: cheap to make and to copy; lives as long as its Products. Thread: any of the team, each with its own number.
class Product {
 public:
  Product() = default;
  void run(int thread, const void* a, const void* b, float* c) const;

  // For a b that many runs share: `pack` once into packed_bytes() of memory (64-byte aligned), then run_packed as often as
  // there are a's. Several threads may pack pieces each.
  size_t packed_bytes() const { return loops_->packed_bytes(shape_); }
  void pack(const void* b, void* packed) const { pack(b, {0, shape_.n}, packed); }
  void pack(const void* b, Piece piece, void* packed) const { loops_->pack(shape_, b, piece, packed); }
  void pack(const Int4Columns& b, void* packed) const { loops_->pack_int4(shape_, b, packed); }
  void run_packed(int thread, const void* a, const void* packed_b, float* c) const;
  // Packs a b for this thread alone: it stays until the thread packs another, or runs a product that packs its own.
  const void* pack_own(int thread, const void* b) const;
  const ProductShape& shape() const { return shape_; }
  SquareForm square() const { return loops_->square(shape_); }
  size_t square_at(int64_t column, int64_t k) const { return loops_->square_at(shape_, column, k); }

 private:
  friend class Products;
  Product(Products& owner, const ProductLoops& loops, const ProductShape& shape)
      : owner_(&owner), loops_(&loops), shape_(shape) {}

  Products* owner_ = nullptr;
  const ProductLoops* loops_ = nullptr;
  ProductShape shape_{};
};

class Products {
 public:
  Products(int threads, Isa isa);

  // The product for this shape, with memory for every thread to run it. From the owner's thread, outside parallel regions.
  Product prepare(const ProductShape& shape);
  // The same where a product of these extents was prepared, whatever its layouts. Any thread.
  Product prepared(const ProductShape& shape);
  // The same with other loops of this instruction set, for a b that is packed by them.
  Product prepared(const ProductShape& shape, const ProductLoops& loops);

 private:
  friend class Product;
  const ProductLoops &float32_, &bfloat16_;
  std::vector<Scratch> scratch_, packed_;  // one per thread, as large as any product needs: of its own, and for a packed b
};

}  // namespace holdfast::kernels::cpu
