#include "worker/gradients/sparse_rows.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>

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

// Bytes for each channel: of `tokens` packed rows, and of one that was brought, which is a sum of four bytes (add).
size_t room_for_rows(int64_t tokens, WireType wire) {
  return std::max(static_cast<size_t>(tokens) * sum_bytes(wire), sizeof(int32_t));
}

}  // namespace

SparseRows::SparseRows(kernels::DeviceOps& ops, WireType wire, int64_t tokens, int64_t V, int64_t C)
    : ops_(ops),
      wire_(wire),
      V_(V),
      C_(C),
      device_ids_(ops, static_cast<size_t>(tokens) * sizeof(int32_t)),
      rows_(ops, static_cast<size_t>(C) * room_for_rows(tokens, wire)),
      rows_on_host_(ops, rows_.data<void>(), rows_.bytes()) {
  ids_.reserve(static_cast<size_t>(tokens));
}

void SparseRows::pack(const model::TokenGradient& gradient, int32_t exponent) {
  ids_.assign(gradient.ids.begin(), gradient.ids.end());
  if (ids_.empty()) return;
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

CollectiveResult<void> SparseRows::gather(Communicator& ring) {
  auto gathered = ring.all_gather(encode());
  if (!gathered) return tl::make_unexpected(gathered.error());
  for (size_t rank = 0; rank < gathered->size(); ++rank) {
    if (const std::string reason = refusal((*gathered)[rank]); !reason.empty()) {
      return tl::make_unexpected(CollectiveError{CollectiveError::Kind::kHandshakeFailed, static_cast<int>(rank),
                                                 "rank " + std::to_string(rank) + " brought rows of the embedding " + reason});
    }
  }
  gathered_ = std::move(*gathered);
  own_rank_ = static_cast<size_t>(ring.rank());
  return {};
}

void SparseRows::add_gathered(float* result) {
  if (gathered_.empty()) return;
  if (wire_ == WireType::kInt16) {
    add_all<int16_t>(reinterpret_cast<int32_t*>(result));
  } else if (wire_ == WireType::kInt32) {
    add_all<int32_t>(reinterpret_cast<int32_t*>(result));
  } else {
    add_all<float>(result);
  }
}

template <typename Packed, typename Sum>
void SparseRows::add_all(Sum* result) {
  for (const auto& block : gathered_) add<Packed>(block, result);
  const bool own_are_there = std::is_same_v<Packed, Sum> && ops_.memory_is_host();
  if (own_are_there) return gathered_.clear();
  const std::byte* const ids = gathered_[own_rank_].data() + kHeaderBytes;
  ops_.copy_to_device(device_ids_.data<void>(), ids, ids_.size() * sizeof(int32_t));
  ops_.copy_to_device(rows_.data<void>(), ids + ids_.size() * sizeof(int32_t), packed_bytes());
  gathered_.clear();
}

// By as many rows at a time as this rank's own have room for, whose place they take until all are added; but for those that are
// fit to be added where they lie.
template <typename Packed, typename Sum>
void SparseRows::add(const std::vector<std::byte>& block, Sum* result) {
  const size_t C = static_cast<size_t>(C_), rows = rows_in(block);
  const size_t at_once = std::min(rows_.bytes() / (C * sizeof(Sum)), device_ids_.bytes() / sizeof(int32_t));
  const std::byte* const ids = block.data() + kHeaderBytes;
  const std::byte* const packed = ids + rows * sizeof(int32_t);
  if (std::is_same_v<Packed, Sum> && ops_.memory_is_host()) {
    return ops_.add_rows(result, reinterpret_cast<const Sum*>(packed), reinterpret_cast<const int32_t*>(ids),
                         static_cast<int64_t>(rows), C_);
  }
  std::vector<Packed> brought;
  std::vector<Sum> wide;
  for (size_t first = 0; first < rows; first += at_once) {
    const size_t count = std::min(at_once, rows - first);
    brought.resize(count * C);
    std::memcpy(brought.data(), packed + first * C * sizeof(Packed), brought.size() * sizeof(Packed));
    wide.assign(brought.begin(), brought.end());
    ops_.copy_to_device(device_ids_.data<void>(), ids + first * sizeof(int32_t), count * sizeof(int32_t));
    ops_.copy_to_device(rows_.data<void>(), wide.data(), wide.size() * sizeof(Sum));
    ops_.add_rows(result, rows_.data<Sum>(), device_ids_.data<int32_t>(), static_cast<int64_t>(count), C_);
  }
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

}  // namespace holdfast::worker
