// Matrix products by oneDNN, each run in one thread: c (m, n) = a (m, k) * b (k, n), or c += with `add`.
//
// Promises: the bits of c depend on the shape, the inputs and the instruction set. oneDNN divides a product, and for
// bfloat16 its inner dimension too, among the threads it sees when it is set up and when it runs; here it sees one.
// Setting up a product is slow, so `prepare` keeps the kMost that were asked for last. A model asks for fewer than a hundred
// (four per linear layer and direction, and the head's), so they always fit. No allocation by us in `run`, nor in `prepare`
// of a product that is kept.
// Thread: `prepare` and `make` from the owner's thread, outside parallel regions; `run` from any thread of its team, each with
// its own number.
#pragma once

#include <array>
#include <cstdint>
#include <dnnl.hpp>
#include <map>
#include <memory>
#include <vector>

#include "kernels/cpu/scratch.h"

namespace holdfast::kernels::cpu {

// How a matrix lies in memory: element (i, j) is at i * row + j * column.
struct Layout {
  int64_t row, column;
};
inline Layout by_rows(int64_t width) {
  return {width, 1};
}
inline Layout transposed(int64_t width) {
  return {1, width};
}  // of a matrix stored by rows of this width

struct ProductShape {
  int64_t m, k, n;
  Layout a, b;
  int64_t c_width;  // c is float32, by rows of this width
  bool add;
  bool bfloat16;  // a and b are bfloat16, else float32

  using Key = std::array<int64_t, 10>;
  Key key() const { return {m, k, n, a.row, a.column, b.row, b.column, c_width, add, bfloat16}; }
};

class Products;

class Product {
 public:
  void run(int thread, const void* a, const void* b, float* c) const;

 private:
  friend class Products;
  struct Arguments {
    dnnl::memory a, b, c, scratchpad;
  };
  Products* owner_ = nullptr;
  dnnl::primitive primitive_;
  std::vector<Arguments> arguments_;  // one per thread
};

class Products {
 public:
  static constexpr size_t kMost = 1024;

  explicit Products(int threads);
  // The product for this shape. A product that is no longer kept lives for as long as someone holds it.
  std::shared_ptr<const Product> prepare(const ProductShape& shape);
  // One that is not kept here: the caller does.
  std::shared_ptr<const Product> make(const ProductShape& shape);
  // Throws if oneDNN refused any run since the last call. Products are run where nothing may be thrown.
  void check();

 private:
  friend class Product;
  struct Kept {
    std::shared_ptr<const Product> product;
    uint64_t last_use;
  };
  dnnl::engine engine_;
  std::vector<dnnl::stream> streams_;    // one per thread
  std::vector<Scratch> scratchpads_;     // one per thread, as large as any product needs
  std::vector<dnnl_status_t> statuses_;  // one per thread: the last failure
  std::map<ProductShape::Key, Kept> kept_;
  uint64_t uses_ = 0;
};

}  // namespace holdfast::kernels::cpu
