// The forward pass with kept keys and values. A row's numbers come from the loops of the training's forward pass, in its cuts:
// those of products by depth and of a row's softmax hang on no other row, so that rows may be taken alone. Bytes: weights are
// read once per call, packed; keys and values of a sequence once per row, or per kQueries rows that follow each other.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/cpu/cpu_ops.h"

namespace holdfast::kernels::cpu {
namespace {

constexpr int64_t kTileRows = 256;
constexpr int64_t kTileColumns = 256;

// The right operand of a product, packed in tiles of columns.
struct PackedWeight final : DecodeOps::Weight {
  int64_t IC, OC;
  Cut columns;
  std::vector<size_t> offsets;  // of tiles
  Scratch memory;
  std::byte* data = nullptr;
  size_t size = 0;

  PackedWeight(int64_t inner, int64_t outer) : IC(inner), OC(outer), columns(Cut::even(outer, kTileColumns, 64)) {}
  size_t bytes() const override { return size; }
  const void* at(int64_t tile) const { return data + offsets[static_cast<size_t>(tile)]; }
};

}  // namespace

class CpuOps::Decode final : public DecodeOps {
 public:
  explicit Decode(CpuOps& ops) : ops_(ops) {}

  std::unique_ptr<Weight> keep(const Act* weight, int64_t OC, int64_t IC) override;
  void embed(float* out, const int32_t* tokens, const int32_t* positions, const Act* wte, const float* wpe, int64_t N,
             int64_t C) override;
  void linear(Act* out, const Act* in, const Weight& weight, const float* bias, Epilogue epilogue, int64_t N) override;
  size_t page_bytes(int64_t C, int64_t) const override { return static_cast<size_t>(2 * kPageTokens * C) * ops_.element_size_; }
  void attention(Act* out, std::byte* pages, const Act* qkv, std::span<const SequenceRows> sequences, int64_t longest,
                 int64_t C, int64_t NH) override;
  void copy(std::byte* to, const std::byte* from, size_t bytes) override { std::memcpy(to, from, bytes); }
  void logits(float* logits, const Act* x, const Weight& wte, int64_t N) override;
  void token_losses(float* host_losses, const float* logits, const int32_t* host_ids, int64_t N, int64_t K, int64_t V) override;

 private:
  struct Head;

  ProductShape shape(int64_t rows, int64_t IC, int64_t columns, int64_t c_width) const {
    return {rows, IC, columns, by_rows(IC), transposed(IC), c_width, false, ops_.native_bfloat16_};
  }
  // Weights of 16 bits that are multiplied as float32 are widened as they are read.
  Product weight_product(const ProductShape& tile) const {
    if (!ops_.widens() || &product_loops(ops_.isa_, false) != &ops_.vectors_.product) return ops_.products_.prepared(tile);
    const bool is_bfloat16 = ops_.activations_ == DType::kBFloat16;
    return ops_.products_.prepared(tile, is_bfloat16 ? ops_.vectors_.narrow_bfloat16 : ops_.vectors_.narrow_float16);
  }
  // finish(row, first column, columns, products) for each row of each tile of x (N, IC) * weight^T.
  template <typename Finish>
  void multiply(const Act* x, const PackedWeight& weight, int64_t N, const Finish& finish);

  CpuOps& ops_;
};

std::unique_ptr<DecodeOps> CpuOps::make_decode_ops() {
  return std::make_unique<Decode>(*this);
}

std::unique_ptr<DecodeOps::Weight> CpuOps::Decode::keep(const Act* weight, int64_t OC, int64_t IC) {
  auto kept = std::make_unique<PackedWeight>(IC, OC);
  for (int64_t tile = 0; tile < kept->columns.count; ++tile) {
    const Product product = weight_product(shape(1, IC, kept->columns.size(tile), kTileColumns));
    kept->offsets.push_back(kept->size);
    kept->size += (product.packed_bytes() + 63) / 64 * 64;
  }
  kept->data = static_cast<std::byte*>(kept->memory.reserve(kept->size));
  const void* const from = ops_.operands(weight, OC * IC, ops_.weight_);
  ops_.team_.for_each(kept->columns.count, [&](int64_t tile, int) {
    const Product product = weight_product(shape(1, IC, kept->columns.size(tile), kTileColumns));
    product.pack(ops_.operand_at(from, kept->columns.begin(tile) * IC), kept->data + kept->offsets[static_cast<size_t>(tile)]);
  });
  return kept;
}

void CpuOps::Decode::embed(float* out, const int32_t* tokens, const int32_t* positions, const Act* wte, const float* wpe,
                           int64_t N, int64_t C) {
  for (int64_t n = 0; n < N; ++n) {
    ops_.elements_.to_float(out + n * C, ops_.at(wte, tokens[n] * C), C);
    ops_.vectors_.floats.add(out + n * C, out + n * C, wpe + positions[n] * C, C);
  }
}

template <typename Finish>
void CpuOps::Decode::multiply(const Act* x, const PackedWeight& weight, int64_t N, const Finish& finish) {
  const void* const in = ops_.operands(x, N * weight.IC, ops_.in_);
  const Cut rows = Cut::even(N, kTileRows, 16);
  const auto tile_shape = [&](int64_t piece, int64_t tile) {
    return shape(rows.size(piece), weight.IC, weight.columns.size(tile), kTileColumns);
  };
  ops_.products_.prepare(tile_shape(0, 0));
  for (Scratch& scratch : ops_.per_thread_) scratch.floats((rows.piece + 1) * kTileColumns);
  ops_.team_.for_each(weight.columns.count * rows.count, [&](int64_t i, int thread) {
    const int64_t tile = i / rows.count, piece = i % rows.count, row = rows.begin(piece), column = weight.columns.begin(tile);
    float* const y = ops_.per_thread_[static_cast<size_t>(thread)].floats(0);  // (rows, kTileColumns), then a row's room
    weight_product(tile_shape(piece, tile)).run_packed(thread, ops_.operand_at(in, row * weight.IC), weight.at(tile), y);
    for (int64_t r = 0; r < rows.size(piece); ++r)
      finish(row + r, column, weight.columns.size(tile), y + r * kTileColumns, y + rows.piece * kTileColumns);
  });
}

void CpuOps::Decode::linear(Act* out, const Act* in, const Weight& weight, const float* bias, Epilogue epilogue, int64_t N) {
  const auto& packed = static_cast<const PackedWeight&>(weight);
  multiply(in, packed, N, [&](int64_t row, int64_t column, int64_t columns, const float* y, void* before_gelu) {
    ops_.elements_.finish_row(ops_.at(out, row * packed.OC + column), epilogue == Epilogue::kGelu ? before_gelu : nullptr, y,
                              bias + column, columns);
  });
}

void CpuOps::Decode::logits(float* logits, const Act* x, const Weight& wte, int64_t N) {
  const auto& packed = static_cast<const PackedWeight&>(wte);
  multiply(x, packed, N, [&](int64_t row, int64_t column, int64_t columns, const float* y, void*) {
    std::memcpy(logits + row * packed.OC + column, y, static_cast<size_t>(columns) * sizeof(float));
  });
}

void CpuOps::Decode::token_losses(float* host_losses, const float* logits, const int32_t* host_ids, int64_t N, int64_t K,
                                  int64_t V) {
  const Cut tiles = Cut::of(ops_.head_rows(), V);  // as the head's
  for (Scratch& scratch : ops_.per_thread_) scratch.floats(tiles.piece + 2 * tiles.count);
  ops_.team_.for_each(N, [&](int64_t n, int thread) {
    float* const tile = ops_.per_thread_[static_cast<size_t>(thread)].floats(0);
    float *const largest = tile + tiles.piece, *const sums = largest + tiles.count;
    for (int64_t t = 0; t < tiles.count; ++t) {
      std::memcpy(tile, logits + n * V + tiles.begin(t), static_cast<size_t>(tiles.size(t)) * sizeof(float));
      largest[t] = ops_.vectors_.floats.exponentiate_row(tile, sums + t, tiles.size(t));
    }
    const float most = *std::max_element(largest, largest + tiles.count);
    const float log_sum = ops_.vectors_.floats.join_pieces(largest, sums, tiles.count, most, 1.0f);  // (most - most) + it
    for (int64_t i = n * K; i < (n + 1) * K; ++i) host_losses[i] = (most - logits[n * V + host_ids[i]]) + log_sum;
  });
}

// One head of one sequence.
struct CpuOps::Decode::Head {
  CpuOps& ops;
  const SequenceRows& rows;
  int64_t longest, C, NH, HS, head;
  int64_t end = rows.position + rows.count;                                            // its positions
  int64_t keys = std::min(longest, (end + kQueryRows - 1) / kQueryRows * kQueryRows);  // of its last block

  static size_t scratch_floats(int64_t keys, int64_t HS) {
    return static_cast<size_t>(2 * keys * HS + kQueryRows * (2 * keys + 2 * HS + 1));
  }
  int64_t keys_of(int64_t block) const { return std::min(longest, (block + 1) * kQueryRows); }
  int64_t query_row() const { return ops.widens() ? HS : 3 * C; }
  ProductShape scores(int64_t block, int64_t count) const {
    return {count, HS, std::min(keys_of(block), end), by_rows(query_row()), transposed(HS), keys, false, ops.native_bfloat16_};
  }
  ProductShape output(int64_t block, int64_t count) const {
    return {count, keys_of(block), HS, by_rows(keys), by_rows(HS), HS, false, ops.native_bfloat16_};
  }

  const void* qkv_at(const Act* qkv, int64_t position, int64_t part) const {
    return ops.at(qkv, (rows.first_row + position - rows.position) * 3 * C + part * C + head * HS);
  }
  // (kPageTokens, HS) of keys (part 0) or values (1).
  std::byte* in_page(std::byte* pages, int64_t page, int64_t part) const {
    const int64_t element = (page * 2 + part) * kPageTokens * C + head * kPageTokens * HS;
    return pages + static_cast<size_t>(element) * ops.element_size_;
  }

  void keep(std::byte* pages, const Act* qkv) const {
    const size_t bytes = static_cast<size_t>(HS) * ops.element_size_;
    for (int64_t t = rows.position; t < end; ++t) {
      for (int64_t part = 0; part < 2; ++part) {
        std::memcpy(in_page(pages, rows.pages[t / kPageTokens], part) + static_cast<size_t>(t % kPageTokens) * bytes,
                    qkv_at(qkv, t, 1 + part), bytes);
      }
    }
  }
  // Keys or values as operands (keys, HS), zero from `end` on.
  void gather(void* to, std::byte* pages, int64_t part) const {
    for (int64_t t = 0; t < end; t += kPageTokens) {
      const std::byte* const from = in_page(pages, rows.pages[t / kPageTokens], part);
      const int64_t count = std::min(kPageTokens, end - t) * HS;
      if (ops.widens()) {
        ops.elements_.to_float(static_cast<float*>(to) + t * HS, from, count);
      } else {
        std::memcpy(static_cast<std::byte*>(to) + static_cast<size_t>(t * HS) * ops.element_size_, from,
                    static_cast<size_t>(count) * ops.element_size_);
      }
    }
    std::memset(static_cast<std::byte*>(to) + static_cast<size_t>(end * HS) * ops.operand_size_, 0,
                static_cast<size_t>((keys - end) * HS) * ops.operand_size_);
  }

  void run(Act* out, std::byte* pages, const Act* qkv, float* scratch, int thread) const {
    float *const k = scratch, *const v = k + keys * HS, *const p = v + keys * HS;                // p (kQueryRows, keys)
    void* const rounded = ops.native_bfloat16_ ? static_cast<void*>(p + kQueryRows * keys) : p;  // the same as operands
    float *const y = p + 2 * kQueryRows * keys, *const wide = y + kQueryRows * HS, *const sums = wide + kQueryRows * HS;
    const float scale = 1.0f / std::sqrt(static_cast<float>(HS));
    keep(pages, qkv);
    gather(k, pages, 0);
    gather(v, pages, 1);
    for (int64_t first = rows.position; first < end;) {
      const int64_t block = first / kQueryRows, behind = std::min(end, (block + 1) * kQueryRows), count = behind - first;
      const void* q = qkv_at(qkv, first, 0);
      if (ops.widens()) {
        for (int64_t r = 0; r < count; ++r) ops.elements_.to_float(wide + r * HS, qkv_at(qkv, first + r, 0), HS);
        q = wide;
      }
      ops.products_.prepared(scores(block, count)).run(thread, q, k, p);
      for (int64_t r = 0; r < count; ++r) {
        float* const row = p + r * keys;
        ops.vectors_.floats.softmax_row(row, sums + r, scale, first + r + 1, keys_of(block));
        if (ops.native_bfloat16_)
          ops.operands_.from_float(static_cast<std::byte*>(rounded) + static_cast<size_t>(r * keys) * ops.operand_size_, row,
                                   keys_of(block));
      }
      ops.products_.prepared(output(block, count)).run(thread, rounded, v, y);
      for (int64_t r = 0; r < count; ++r) {
        ops.elements_.scaled_from_float(ops.at(out, (rows.first_row + first + r - rows.position) * C + head * HS), y + r * HS,
                                        1.0f / sums[r], HS);
      }
      first = behind;
    }
  }
};

void CpuOps::Decode::attention(Act* out, std::byte* pages, const Act* qkv, std::span<const SequenceRows> sequences,
                               int64_t longest, int64_t C, int64_t NH) {
  const int64_t HS = C / NH;
  size_t floats = 0;
  for (const SequenceRows& rows : sequences) {
    const Head head{ops_, rows, longest, C, NH, HS, 0};
    floats = std::max(floats, Head::scratch_floats(head.keys, HS));
    for (int64_t block = rows.position / kQueryRows; block * kQueryRows < head.end; ++block) {
      const int64_t most = std::min(kQueryRows, rows.count);
      ops_.products_.prepare(head.scores(block, most));
      ops_.products_.prepare(head.output(block, most));
    }
  }
  for (Scratch& scratch : ops_.per_thread_) scratch.floats(static_cast<int64_t>(floats));
  ops_.team_.for_each(static_cast<int64_t>(sequences.size()) * NH, [&](int64_t task, int thread) {
    const Head head{ops_, sequences[static_cast<size_t>(task / NH)], longest, C, NH, HS, task % NH};
    head.run(out, pages, qkv, ops_.per_thread_[static_cast<size_t>(thread)].floats(0), thread);
  });
}

}  // namespace holdfast::kernels::cpu
