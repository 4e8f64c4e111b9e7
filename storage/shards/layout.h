// How a checkpoint's bytes, all tensors end to end, are cut into shards: never inside an element, by size alone.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
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

}  // namespace holdfast::storage
