#include "worker/gradients/sparse_rows.h"

#include <cstring>
#include <string>

namespace holdfast::worker {
namespace {

// Layout of a rank's block, in the byte order of all machines that we run on: number of rows R (u32), ids (i32 each), rows.
constexpr size_t kHeaderBytes = sizeof(uint32_t);

uint32_t rows_in(const std::vector<std::byte>& block) {
  uint32_t rows = 0;
  std::memcpy(&rows, block.data(), sizeof rows);
  return rows;
}

int32_t id_at(const std::vector<std::byte>& block, size_t row) {
  int32_t id = 0;
  std::memcpy(&id, block.data() + kHeaderBytes + row * sizeof id, sizeof id);
  return id;
}

template <typename Packed, typename Sum>
void add_rows(const std::vector<std::byte>& block, size_t C, Sum* result) {
  const size_t rows = rows_in(block);
  const std::byte* next = block.data() + kHeaderBytes + rows * sizeof(int32_t);
  std::vector<Packed> row(C);
  for (size_t r = 0; r < rows; ++r, next += C * sizeof(Packed)) {
    std::memcpy(row.data(), next, C * sizeof(Packed));
    Sum* sum = result + static_cast<size_t>(id_at(block, r)) * C;
    for (size_t c = 0; c < C; ++c) sum[c] += row[c];
  }
}

}  // namespace

SparseRows::SparseRows(kernels::DeviceOps& ops, WireType wire, int64_t tokens, int64_t V, int64_t C)
    : ops_(ops),
      wire_(wire),
      V_(V),
      C_(C),
      device_ids_(ops, static_cast<size_t>(tokens) * sizeof(int32_t)),
      rows_(ops, static_cast<size_t>(tokens * C) * sum_bytes(wire)),
      rows_on_host_(ops, rows_.data<void>(), rows_.bytes()) {
  ids_.reserve(static_cast<size_t>(tokens));
}

void SparseRows::pack(const model::TokenGradient& gradient, int32_t exponent) {
  ids_.assign(gradient.ids.begin(), gradient.ids.end());
  ops_.copy_to_device(device_ids_.data<void>(), ids_.data(), ids_.size() * sizeof(int32_t));
  const int64_t count = static_cast<int64_t>(ids_.size()) * C_;
  if (wire_ == WireType::kInt16) {
    ops_.fixed_accumulate(rows_.data<int16_t>(), gradient.rows, count, exponent, true);
  } else if (wire_ == WireType::kInt32) {
    ops_.fixed_accumulate(rows_.data<int32_t>(), gradient.rows, count, exponent, true);
  } else {
    ops_.float_accumulate(rows_.data<float>(), gradient.rows, count, true);
  }
}

void SparseRows::move_to(std::byte* sums) {
  const auto add_all = [&]<typename T>(T) {
    ops_.add_rows(reinterpret_cast<T*>(sums), rows_.data<T>(), device_ids_.data<int32_t>(), static_cast<int64_t>(ids_.size()),
                  C_);
  };
  if (wire_ == WireType::kInt16) {
    add_all(int16_t{});
  } else if (wire_ == WireType::kInt32) {
    add_all(int32_t{});
  } else {
    add_all(float{});
  }
  ids_.clear();
}

void SparseRows::begin_fetch() {
  rows_on_host_.begin_fetch(0, packed_bytes());
}

CollectiveResult<void> SparseRows::sum_over(Communicator& ring, float* result) {
  const auto gathered = ring.all_gather(encode());
  if (!gathered) return tl::make_unexpected(gathered.error());
  for (size_t rank = 0; rank < gathered->size(); ++rank) {
    if (const std::string reason = refusal((*gathered)[rank]); !reason.empty()) {
      return tl::make_unexpected(CollectiveError{CollectiveError::Kind::kHandshakeFailed, static_cast<int>(rank),
                                                 "rank " + std::to_string(rank) + " brought rows of the embedding " + reason});
    }
    add((*gathered)[rank], result);
  }
  return {};
}

std::vector<std::byte> SparseRows::encode() {
  const auto rows = static_cast<uint32_t>(ids_.size());
  const size_t ids_bytes = rows * sizeof(int32_t), rows_bytes = packed_bytes();
  std::vector<std::byte> block(kHeaderBytes + ids_bytes + rows_bytes);
  std::memcpy(block.data(), &rows, kHeaderBytes);
  if (rows == 0) return block;
  std::memcpy(block.data() + kHeaderBytes, ids_.data(), ids_bytes);
  rows_on_host_.finish_fetch(0, rows_bytes);
  std::memcpy(block.data() + kHeaderBytes + ids_bytes, rows_on_host_.data(), rows_bytes);
  return block;
}

std::string SparseRows::refusal(const std::vector<std::byte>& block) const {
  const size_t row_bytes = sizeof(int32_t) + static_cast<size_t>(C_) * sum_bytes(wire_);
  if (block.size() < kHeaderBytes || block.size() != kHeaderBytes + rows_in(block) * row_bytes)
    return "in " + std::to_string(block.size()) + " bytes, which are no whole number of rows of " + std::to_string(row_bytes);
  int64_t before = -1;
  for (size_t row = 0; row < rows_in(block); ++row) {
    const int64_t id = id_at(block, row);
    if (id <= before || id >= V_)
      return "with token " + std::to_string(id) + " after " + std::to_string(before) + ", expected ascending ids below " +
             std::to_string(V_);
    before = id;
  }
  return {};
}

void SparseRows::add(const std::vector<std::byte>& block, float* result) const {
  const auto C = static_cast<size_t>(C_);
  if (wire_ == WireType::kInt16) return add_rows<int16_t>(block, C, reinterpret_cast<int32_t*>(result));
  if (wire_ == WireType::kInt32) return add_rows<int32_t>(block, C, reinterpret_cast<int32_t*>(result));
  add_rows<float>(block, C, result);
}

}  // namespace holdfast::worker
