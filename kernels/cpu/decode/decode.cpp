// The forward pass with kept keys and values. A row's numbers come from the loops of the training's forward pass, in its cuts:
// those of products by depth and of a row's softmax hang on no other row, so that rows may be taken alone. Bytes: weights are
// read once per call, packed.
#include "kernels/cpu/decode/decode.h"

#include <algorithm>
#include <vector>

namespace holdfast::kernels::cpu {

// The right operand of a product, packed in tiles of columns.
struct CpuOps::Decode::PackedWeight final : KeptWeight {
  Cut columns;
  std::vector<size_t> offsets;  // of tiles
  Scratch memory;
  std::byte* data = nullptr;
  size_t size = 0;

  PackedWeight(int64_t outer, int64_t inner, int64_t tile_columns) : columns(Cut::even(outer, tile_columns, 64)) {
    OC = outer;
    IC = inner;
  }
  size_t bytes() const override { return size; }
  const void* at(int64_t tile) const { return data + offsets[static_cast<size_t>(tile)]; }
};

std::unique_ptr<DecodeOps> CpuOps::make_decode_ops(WeightForm form) {
  if (form == WeightForm::kInt8) return std::make_unique<Int8Decode>(*this);
  if (form == WeightForm::kInt4) return std::make_unique<Int4Decode>(*this);
  return std::make_unique<Decode>(*this);
}

std::unique_ptr<DecodeOps::Weight> CpuOps::Decode::keep(const Act* weight, int64_t OC, int64_t IC) {
  auto kept = std::make_unique<PackedWeight>(OC, IC, tile_columns());
  for (int64_t tile = 0; tile < kept->columns.count; ++tile) {
    const Product product = kept_product(shape(1, IC, kept->columns.size(tile), tile_columns()));
    kept->offsets.push_back(kept->size);
    kept->size += aligned(product.packed_bytes());
  }
  kept->data = static_cast<std::byte*>(kept->memory.reserve(kept->size));
  const void* const from = ops_.operands(weight, OC * IC, ops_.weight_);
  ops_.team_.for_each(kept->columns.count, [&](int64_t tile, int) {
    const Product product = kept_product(shape(1, IC, kept->columns.size(tile), tile_columns()));
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

void CpuOps::Decode::multiply(const Act* x, const KeptWeight& kept, int64_t N, const Finish& finish) {
  const auto& weight = static_cast<const PackedWeight&>(kept);
  const void* const in = ops_.operands(x, N * weight.IC, ops_.in_);
  const Cut rows = Cut::even(N, kTileRows, 16);
  const auto tile_shape = [&](int64_t piece, int64_t tile) {
    return shape(rows.size(piece), weight.IC, weight.columns.size(tile), tile_columns());
  };
  ops_.products_.prepare(tile_shape(0, 0));
  for (Scratch& scratch : ops_.per_thread_) scratch.floats((rows.piece + 1) * tile_columns());
  ops_.team_.for_each(weight.columns.count * rows.count, [&](int64_t i, int thread) {
    const int64_t tile = i / rows.count, piece = i % rows.count, row = rows.begin(piece), column = weight.columns.begin(tile);
    float* const y = ops_.per_thread_[static_cast<size_t>(thread)].floats(0);  // (rows, tile_columns()), then a row's room
    kept_product(tile_shape(piece, tile)).run_packed(thread, ops_.operand_at(in, row * weight.IC), weight.at(tile), y);
    for (int64_t r = 0; r < rows.size(piece); ++r)
      finish(row + r, column, weight.columns.size(tile), y + r * tile_columns(), y + rows.piece * tile_columns());
  });
}

void CpuOps::Decode::linear(Act* out, const Act* in, const Weight& weight, const float* bias, Epilogue epilogue, int64_t N) {
  const auto& kept = static_cast<const KeptWeight&>(weight);
  multiply(in, kept, N, [&](int64_t row, int64_t column, int64_t columns, const float* y, void* before_gelu) {
    ops_.elements_.finish_row(ops_.at(out, row * kept.OC + column), epilogue == Epilogue::kGelu ? before_gelu : nullptr, y,
                              bias + column, columns);
  });
}

void CpuOps::Decode::logits(float* logits, const Act* x, const Weight& wte, int64_t N) {
  const auto& kept = static_cast<const KeptWeight&>(wte);
  multiply(x, kept, N, [&](int64_t row, int64_t column, int64_t columns, const float* y, void*) {
    std::memcpy(logits + row * kept.OC + column, y, static_cast<size_t>(columns) * sizeof(float));
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

}  // namespace holdfast::kernels::cpu
