// The decode ops of the cpu op set: products with kept weights (decode.cpp; int8.cpp), attention to kept keys (attention.cpp).
#pragma once

#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/decode_ops.h"

namespace holdfast::kernels::cpu {

class CpuOps::Decode : public DecodeOps {
 public:
  explicit Decode(CpuOps& ops) : ops_(ops) {}

  std::unique_ptr<Weight> keep(const Act* weight, int64_t OC, int64_t IC) override;
  void embed(float* out, const int32_t* tokens, const int32_t* positions, const Act* wte, const float* wpe, int64_t N,
             int64_t C) override;
  void linear(Act* out, const Act* in, const Weight& weight, const float* bias, Epilogue epilogue, int64_t N) override;
  size_t page_bytes(int64_t C, int64_t NH) const override;
  void attention(Act* out, std::byte* pages, const Act* qkv, std::span<const SequenceRows> sequences, int64_t longest,
                 int64_t C, int64_t NH) override;
  void copy(std::byte* to, const std::byte* from, size_t bytes) override { std::memcpy(to, from, bytes); }
  void logits(float* logits, const Act* x, const Weight& wte, int64_t N) override;
  void token_losses(float* host_losses, const float* logits, const int32_t* host_ids, int64_t N, int64_t K, int64_t V) override;

 protected:
  struct KeptWeight : Weight {
    int64_t OC = 0, IC = 0;
  };
  // Takes `columns` numbers of a row of a product; `room` has as many floats.
  using Finish = std::function<void(int64_t row, int64_t column, int64_t columns, const float* products, void* room)>;
  // finish() for each row of each tile of x (N, IC) * weight^T, from any thread of the team.
  virtual void multiply(const Act* x, const KeptWeight& weight, int64_t N, const Finish& finish);

  static constexpr int64_t kTileRows = 256;  // of a product's rows that are computed at a time
  // Of its columns: few, so that all threads have some where there is one row; more for matrix units, which pack rows for each
  // tile.
  int64_t tile_columns() const { return ops_.isa_ == Isa::kAmx ? 256 : 128; }

  ProductShape shape(int64_t rows, int64_t IC, int64_t columns, int64_t c_width) const {
    return {rows, IC, columns, by_rows(IC), transposed(IC), c_width, false, ops_.native_bfloat16_};
  }
  // With a right operand that is kept, packed: one of 16 bits that is multiplied as float32 is widened as it is read.
  Product kept_product(const ProductShape& tile) const {
    if (!ops_.widens() || &product_loops(ops_.isa_, false) != &ops_.vectors_.product) return ops_.products_.prepared(tile);
    const bool is_bfloat16 = ops_.activations_ == DType::kBFloat16;
    return ops_.products_.prepared(tile, is_bfloat16 ? ops_.vectors_.narrow_bfloat16 : ops_.vectors_.narrow_float16);
  }

  CpuOps& ops_;

 private:
  struct PackedWeight;
  struct KeptRows;
  struct Head;
};

// The same with weights of int8: WeightForm::kInt8 in decode_ops.h.
class CpuOps::Int8Decode final : public CpuOps::Decode {
 public:
  explicit Int8Decode(CpuOps& ops);
  ~Int8Decode() override;

  std::unique_ptr<Weight> keep(const Act* weight, int64_t OC, int64_t IC) override;

 private:
  struct Matrix;

  void multiply(const Act* x, const KeptWeight& weight, int64_t N, const Finish& finish) override;
  // Rows of x (count, IC) as those of int8.
  void quantize(Matrix& to, const Act* x, int64_t count, int64_t IC);

  const Int8Loops loops_;
  std::unique_ptr<Matrix> rows_;  // of the product at hand
};

// The same with weights of 4 bits: WeightForm::kInt4 in decode_ops.h.
class CpuOps::Int4Decode final : public CpuOps::Decode {
 public:
  explicit Int4Decode(CpuOps& ops);
  ~Int4Decode() override;

  std::unique_ptr<Weight> keep(const Act* weight, int64_t OC, int64_t IC) override;

 private:
  struct Tiles;

  void multiply(const Act* x, const KeptWeight& weight, int64_t N, const Finish& finish) override;

  std::vector<Scratch> tiles_;  // by thread: a packed tile
};

}  // namespace holdfast::kernels::cpu
