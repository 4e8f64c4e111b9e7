// Products with weights of int8. Bytes: a weight is read once per kTileRows rows, a byte for each of its numbers.
#include <algorithm>

#include "kernels/cpu/decode/decode.h"

namespace holdfast::kernels::cpu {
namespace {

constexpr int64_t kColumnsAtOnce = 128;
constexpr int64_t kRowsOfTask = 32;  // of a weight that is kept

Int8Loops loops_of(const VectorTable& table, Isa isa) {
  Int8Loops loops = table.int8;
  if (isa != Isa::kAvx2 && __builtin_cpu_supports("avx512vnni")) loops.multiply = multiply_int8_vnni;
  return loops;
}

}  // namespace

// Rows of int8 with their scales and sums.
struct CpuOps::Int8Decode::Matrix final : KeptWeight {
  int64_t depth = 0;  // of a row: IC and the zeros behind it
  Scratch numbers, scales, sums;

  void shape(int64_t count, int64_t inner) {
    OC = count;
    IC = inner;
    depth = (IC + kInt8Step - 1) / kInt8Step * kInt8Step;
    numbers.reserve(static_cast<size_t>(OC * depth));
    scales.floats(OC);
    sums.reserve(static_cast<size_t>(OC) * sizeof(int32_t));
  }
  size_t bytes() const override { return static_cast<size_t>(OC * (depth + 8)); }
  int8_t* row(int64_t r) const { return static_cast<int8_t*>(numbers.memory()) + r * depth; }
  float* scale(int64_t r) const { return static_cast<float*>(scales.memory()) + r; }
  int32_t* sum(int64_t r) const { return static_cast<int32_t*>(sums.memory()) + r; }
};

CpuOps::Int8Decode::Int8Decode(CpuOps& ops)
    : Decode(ops), loops_(loops_of(ops.vectors_, ops.isa_)), rows_(std::make_unique<Matrix>()) {}
CpuOps::Int8Decode::~Int8Decode() = default;

void CpuOps::Int8Decode::quantize(Matrix& to, const Act* x, int64_t count, int64_t IC) {
  to.shape(count, IC);
  for (Scratch& scratch : ops_.per_thread_) scratch.floats(IC);
  const Cut tasks = Cut::of(kRowsOfTask, count);
  ops_.team_.for_each(tasks.count, [&](int64_t task, int thread) {
    float* const row = ops_.per_thread_[static_cast<size_t>(thread)].floats(0);
    for (int64_t r = tasks.begin(task); r < tasks.begin(task) + tasks.size(task); ++r) {
      ops_.elements_.to_float(row, ops_.at(x, r * IC), IC);
      *to.scale(r) = loops_.quantize(to.row(r), row, IC, ops_.vectors_.floats.abs_max(row, IC));
      *to.sum(r) = loops_.sum(to.row(r), to.depth);
    }
  });
}

std::unique_ptr<DecodeOps::Weight> CpuOps::Int8Decode::keep(const Act* weight, int64_t OC, int64_t IC) {
  auto kept = std::make_unique<Matrix>();
  quantize(*kept, weight, OC, IC);
  return kept;
}

void CpuOps::Int8Decode::multiply(const Act* x, const KeptWeight& kept, int64_t N, const Finish& finish) {
  const auto& weight = static_cast<const Matrix&>(kept);
  quantize(*rows_, x, N, weight.IC);
  const Cut rows = Cut::of(kTileRows, N), columns = Cut::even(weight.OC, kColumnsAtOnce, 4);
  for (Scratch& scratch : ops_.per_thread_) scratch.floats(std::min(N, kTileRows) * kColumnsAtOnce + 2 * kColumnsAtOnce);
  ops_.team_.for_each(columns.count * rows.count, [&](int64_t i, int thread) {
    const int64_t tile = i / rows.count, piece = i % rows.count, row = rows.begin(piece), column = columns.begin(tile);
    float* const y = ops_.per_thread_[static_cast<size_t>(thread)].floats(0);  // a row's products, and room beside it
    auto* const c = reinterpret_cast<int32_t*>(y + 2 * kColumnsAtOnce);        // (rows, kColumnsAtOnce)
    loops_.multiply(c, kColumnsAtOnce, rows_->row(row), rows.size(piece), weight.row(column), weight.sum(column),
                    columns.size(tile), weight.depth);
    for (int64_t r = 0; r < rows.size(piece); ++r) {
      loops_.to_floats(y, c + r * kColumnsAtOnce, *rows_->scale(row + r), weight.scale(column), columns.size(tile));
      finish(row + r, column, columns.size(tile), y, y + kColumnsAtOnce);
    }
  });
}

}  // namespace holdfast::kernels::cpu
