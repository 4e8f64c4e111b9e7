// How a checkpoint's bytes, all tensors end to end, are cut into shards: never inside an element, by size alone; or by pieces,
// where several writers have them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "storage/checkpoint.h"

namespace holdfast::storage {

// Bytes of an element, or 0 for a type that checkpoints do not know.
int element_width(const std::string& dtype);
// The product of the shape times the width; nullopt when it overflows or the type is not known.
std::optional<int64_t> tensor_bytes(const std::string& dtype, std::span<const int64_t> shape);

// Raw bytes of each shard: as close to `shard_bytes` as whole elements allow, and never more (but at least an element).
std::vector<int64_t> shard_sizes(std::span<const TensorInfo> tensors, int64_t shard_bytes);

struct TensorRange {
  size_t tensor;
  int64_t offset, bytes;  // within the tensor
  int width;
};
// The contents of bytes [first_byte, first_byte + bytes): nullopt when that cuts an element or leaves the tensors.
std::optional<std::vector<TensorRange>> ranges_of(std::span<const TensorInfo> tensors, int64_t first_byte, int64_t bytes);

// The state's pieces (state_hash.h), by number.
class PieceTable {
 public:
  explicit PieceTable(std::span<const TensorInfo> tensors);
  size_t size() const { return pieces_.size(); }
  const TensorRange& operator[](size_t number) const { return pieces_[number]; }
  // In the state's bytes.
  int64_t first_byte(size_t number) const { return first_bytes_[pieces_[number].tensor] + pieces_[number].offset; }

 private:
  std::vector<TensorRange> pieces_;
  std::vector<int64_t> first_bytes_;  // by tensor
};

struct ShardContents {
  int64_t first_byte = 0;           // of the state's, that its first range begins with
  std::vector<TensorRange> ranges;  // end to end
};
// By shard; or, in words, why they do not hold the tensors' bytes once each.
tl::expected<std::vector<ShardContents>, std::string> contents_of(std::span<const TensorInfo> tensors,
                                                                  std::span<const ShardInfo> shards);

}  // namespace holdfast::storage
