// Products with weights of 4 bits. Bytes: a weight is read once per call, 4.5 bits for each of its numbers; a tile of it is
// unpacked into a packed operand as it is needed, which stays in a cache meanwhile.
#include "kernels/int4.h"

#include <algorithm>
#include <vector>

#include "kernels/cpu/decode/decode.h"

namespace holdfast::kernels::cpu {

// The weight's rows in tiles, as columns of products.
struct CpuOps::Int4Decode::Tiles final : KeptWeight {
  Cut columns;
  int64_t groups;
  std::vector<Int4Square> squares;  // a tile's after those of the one before it: see Int4Columns

  Tiles(int64_t outer, int64_t inner, int64_t tile_columns)
      : columns(Cut::even(outer, tile_columns, 64)),
        groups(int4_groups(inner)),
        squares(static_cast<size_t>(columns.count * columns.piece / Int4Square::kLines * groups)) {
    OC = outer;
    IC = inner;
  }
  size_t bytes() const override { return squares.size() * sizeof(Int4Square); }
  const Int4Square* at(int64_t row) const { return squares.data() + row / Int4Square::kLines * groups; }
  void put(int64_t row, int64_t group, const Int4Group& from) {
    constexpr int64_t kPairs = kInt4Group / 2;
    Int4Square& to = squares[static_cast<size_t>(row / Int4Square::kLines * groups + group)];
    const int64_t line = row % Int4Square::kLines;
    to.scales[line] = from.scale;
    const auto number = [&from](int64_t i) { return (i < kPairs ? from.pairs[i] & 15U : from.pairs[i - kPairs] >> 4U); };
    for (int64_t i = 0; i < kPairs; ++i) to.pairs[i][line] = static_cast<uint8_t>(number(2 * i) | number(2 * i + 1) << 4U);
  }
};

CpuOps::Int4Decode::Int4Decode(CpuOps& ops) : Decode(ops), tiles_(ops.per_thread_.size()) {}
CpuOps::Int4Decode::~Int4Decode() = default;

std::unique_ptr<DecodeOps::Weight> CpuOps::Int4Decode::keep(const Act* weight, int64_t OC, int64_t IC) {
  auto kept = std::make_unique<Tiles>(OC, IC, tile_columns());
  for (Scratch& scratch : ops_.per_thread_) scratch.floats(IC);
  ops_.team_.for_each(kept->columns.count, [&](int64_t tile, int thread) {
    float* const row = ops_.per_thread_[static_cast<size_t>(thread)].floats(0);
    const int64_t first = kept->columns.begin(tile);
    for (int64_t r = first; r < first + kept->columns.size(tile); ++r) {
      ops_.elements_.to_float(row, ops_.at(weight, r * IC), IC);
      for (int64_t g = 0; g < kept->groups; ++g)
        kept->put(r, g, to_int4(row + g * kInt4Group, std::min(kInt4Group, IC - g * kInt4Group)));
    }
  });
  return kept;
}

void CpuOps::Int4Decode::multiply(const Act* x, const KeptWeight& kept, int64_t N, const Finish& finish) {
  const auto& weight = static_cast<const Tiles&>(kept);
  const int64_t IC = weight.IC, width = weight.columns.piece;
  const void* const in = ops_.operands(x, N * IC, ops_.in_);
  const Cut rows = Cut::even(N, kTileRows, 16);
  const Cut& columns = weight.columns;
  const auto tile_shape = [&](int64_t piece, int64_t tile) { return shape(rows.size(piece), IC, columns.size(tile), width); };
  const size_t of_packed = ops_.products_.prepare(tile_shape(0, 0)).packed_bytes();
  for (Scratch& scratch : ops_.per_thread_) scratch.floats((rows.piece + 1) * width);
  for (Scratch& scratch : tiles_) scratch.reserve(of_packed);
  const Int4Rounding rounding = !ops_.widens()                          ? Int4Rounding::kNone
                                : ops_.activations_ == DType::kBFloat16 ? Int4Rounding::kBFloat16
                                                                        : Int4Rounding::kFloat16;
  ops_.team_.for_each(columns.count, [&](int64_t tile, int thread) {
    void* const packed = tiles_[static_cast<size_t>(thread)].memory();
    const Int4Columns numbers{weight.groups, weight.at(columns.begin(tile)), rounding};
    ops_.products_.prepared(tile_shape(0, tile)).pack(numbers, packed);
    float* const y = ops_.per_thread_[static_cast<size_t>(thread)].floats(0);  // (rows, width), then a row's room
    for (int64_t piece = 0; piece < rows.count; ++piece) {
      const int64_t row = rows.begin(piece);
      ops_.products_.prepared(tile_shape(piece, tile)).run_packed(thread, ops_.operand_at(in, row * IC), packed, y);
      for (int64_t r = 0; r < rows.size(piece); ++r)
        finish(row + r, columns.begin(tile), columns.size(tile), y + r * width, y + rows.piece * width);
    }
  });
}

}  // namespace holdfast::kernels::cpu
