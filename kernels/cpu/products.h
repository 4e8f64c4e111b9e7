// Matrix products, each run in one thread: c (m, n) = a (m, k) * b (k, n), or c += with `add`. On CPUs with matrix units by our
// own loops (amx/product.h), elsewhere by oneDNN.
//
// Promises: the bits of c depend on the shape, the inputs and the instruction set. oneDNN divides a product among the threads
// it sees when it is set up and when it runs; here it sees one. Operands are float32; with matrix units bfloat16, too.
// Why not oneDNN with matrix units, which it can use: measured with 2.6.3 on one core, 226 GFLOP/s where ours do 800 to 2000
// (bfloat16), and 86 where ours do 200 and more (float32), as it reads operands that lie as ours do slowly.
// Setting up a oneDNN product is slow, so `prepare` keeps the kMost that were asked for last. A model asks for fewer than a
// hundred (four per linear layer and direction, and the head's), so they always fit. No allocation by us in `run`, nor in
// `prepare` of a product that is kept. Thread: `prepare` and `make` from the owner's thread, outside parallel regions; `run`
// from any thread of its team, each with its own number.
#pragma once

#include <array>
#include <cstdint>
#include <dnnl.hpp>
#include <map>
#include <memory>
#include <vector>

#include "kernels/cpu/product_shape.h"
#include "kernels/cpu/scratch.h"

namespace holdfast::kernels::cpu {

class Products;

class Product {
 public:
  void run(int thread, const void* a, const void* b, float* c) const;

  // For a b that many runs share: `pack` once into packed_bytes() of memory (64-byte aligned), then run_packed as often as
  // there are a's. Where packed_bytes() is 0 nothing is packed, and run_packed takes b itself.
  size_t packed_bytes() const;
  void pack(const void* b, void* packed) const;
  void run_packed(int thread, const void* a, const void* b, float* c) const;

 private:
  friend class Products;
  struct Arguments {
    dnnl::memory a, b, c, scratchpad;
  };
  void run_onednn(size_t thread, const void* a, const void* b, float* c) const;

  Products* owner_ = nullptr;
  ProductShape shape_{};
  dnnl::primitive primitive_;         // where oneDNN does it, as are
  std::vector<Arguments> arguments_;  // these, one per thread
};

class Products {
 public:
  static constexpr size_t kMost = 1024;

  // `matrix_units`: amx::usable(), and they are to be used.
  Products(int threads, bool matrix_units);
  // The product for this shape. A product that is no longer kept lives for as long as someone holds it.
  std::shared_ptr<const Product> prepare(const ProductShape& shape);
  // One that is not kept here: the caller does.
  std::shared_ptr<const Product> make(const ProductShape& shape);
  // Throws if oneDNN refused any run since the last call. Products are run where nothing may be thrown.
  void check();

 private:
  friend class Product;
  using Key = std::array<int64_t, 10>;
  static Key key(const ProductShape& shape);
  void set_up_onednn(Product& product);
  struct Kept {
    std::shared_ptr<const Product> product;
    uint64_t last_use;
  };
  bool matrix_units_;
  dnnl::engine engine_;
  std::vector<dnnl::stream> streams_;    // one per thread
  std::vector<Scratch> scratchpads_;     // one per thread, as large as any product needs
  std::vector<dnnl_status_t> statuses_;  // one per thread: the last failure
  std::map<Key, Kept> kept_;
  uint64_t uses_ = 0;
};

}  // namespace holdfast::kernels::cpu
