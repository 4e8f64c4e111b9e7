// Products with weights of 4 bits. Bytes: a weight is read once per call, 4.5 bits for each of its numbers; a tile of it is
// made numbers of the activations' type and packed as it is needed, and stays in a cache meanwhile.
#include <algorithm>
#include <vector>

#include "kernels/cpu/decode/decode.h"
#include "kernels/int4.h"

namespace holdfast::kernels::cpu {
namespace {

constexpr int64_t kRowsOfTask = 32;  // of a weight that is kept

}  // namespace

struct CpuOps::Int4Decode::Groups final : KeptWeight {
  Groups(int64_t outer, int64_t inner) : groups(static_cast<size_t>(outer * int4_groups(inner))) {
    OC = outer;
    IC = inner;
  }
  size_t bytes() const override { return groups.size() * sizeof(Int4Group); }
  Int4Group* row(int64_t r) { return groups.data() + r * int4_groups(IC); }
  const Int4Group* row(int64_t r) const { return groups.data() + r * int4_groups(IC); }

  std::vector<Int4Group> groups;
};

CpuOps::Int4Decode::Int4Decode(CpuOps& ops) : Decode(ops), tiles_(ops.per_thread_.size()) {}
CpuOps::Int4Decode::~Int4Decode() = default;

std::unique_ptr<DecodeOps::Weight> CpuOps::Int4Decode::keep(const Act* weight, int64_t OC, int64_t IC) {
  auto kept = std::make_unique<Groups>(OC, IC);
  for (Scratch& scratch : ops_.per_thread_) scratch.floats(IC);
  const Cut tasks = Cut::of(kRowsOfTask, OC);
  ops_.team_.for_each(tasks.count, [&](int64_t task, int thread) {
    float* const row = ops_.per_thread_[static_cast<size_t>(thread)].floats(0);
    for (int64_t r = tasks.begin(task); r < tasks.begin(task) + tasks.size(task); ++r) {
      ops_.elements_.to_float(row, ops_.at(weight, r * IC), IC);
      for (int64_t g = 0; g < int4_groups(IC); ++g)
        kept->row(r)[g] = to_int4(row + g * kInt4Group, std::min(kInt4Group, IC - g * kInt4Group));
    }
  });
  return kept;
}

void CpuOps::Int4Decode::multiply(const Act* x, const KeptWeight& kept, int64_t N, const Finish& finish) {
  const auto& weight = static_cast<const Groups&>(kept);
  const int64_t IC = weight.IC, groups = int4_groups(IC);
  const void* const in = ops_.operands(x, N * IC, ops_.in_);
  const Cut rows = Cut::even(N, kTileRows, 16), columns = Cut::even(weight.OC, kTileColumns, 64);
  const auto tile_shape = [&](int64_t piece, int64_t tile) {
    return shape(rows.size(piece), IC, columns.size(tile), kTileColumns);
  };
  ops_.products_.prepare(tile_shape(0, 0));
  // Operands are activations, or floats that have the values of activations.
  const size_t operand_bytes = ops_.widens() ? sizeof(float) : dtype_size(ops_.activation_dtype());
  const size_t of_floats = aligned(static_cast<size_t>(groups * kInt4Group) * sizeof(float)),
               of_rows = aligned(static_cast<size_t>(columns.piece * IC) * operand_bytes),
               of_packed = aligned(kept_product(tile_shape(0, 0)).packed_bytes());
  for (Scratch& scratch : ops_.per_thread_) scratch.floats((rows.piece + 1) * kTileColumns);
  for (Scratch& scratch : tiles_) scratch.reserve(of_floats + of_rows + of_packed);
  ops_.team_.for_each(columns.count, [&](int64_t tile, int thread) {
    auto* const room = static_cast<std::byte*>(tiles_[static_cast<size_t>(thread)].memory());
    auto* const floats = reinterpret_cast<float*>(room);
    std::byte *const values = room + of_floats, *const packed = values + of_rows;
    const int64_t column = columns.begin(tile);
    for (int64_t c = 0; c < columns.size(tile); ++c) {
      ops_.vectors_.int4_to_floats(floats, weight.row(column + c), groups);
      std::byte* const row = values + static_cast<size_t>(c * IC) * operand_bytes;
      ops_.elements_.from_float(ops_.widens() ? packed : row, floats, IC);
      if (ops_.widens()) ops_.elements_.to_float(reinterpret_cast<float*>(row), packed, IC);
    }
    kept_product(tile_shape(0, tile)).pack(values, packed);
    float* const y = ops_.per_thread_[static_cast<size_t>(thread)].floats(0);  // (rows, kTileColumns), then a row's room
    for (int64_t piece = 0; piece < rows.count; ++piece) {
      const int64_t row = rows.begin(piece);
      kept_product(tile_shape(piece, tile)).run_packed(thread, ops_.operand_at(in, row * IC), packed, y);
      for (int64_t r = 0; r < rows.size(piece); ++r)
        finish(row + r, column, columns.size(tile), y + r * kTileColumns, y + rows.piece * kTileColumns);
    }
  });
}

}  // namespace holdfast::kernels::cpu
