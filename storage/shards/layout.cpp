#include "storage/shards/layout.h"

#include <algorithm>

namespace holdfast::storage {

int element_width(const std::string& dtype) {
  if (dtype == "float32" || dtype == "int32") return 4;
  if (dtype == "bfloat16" || dtype == "float16") return 2;
  return 0;
}

std::optional<int64_t> tensor_bytes(const std::string& dtype, std::span<const int64_t> shape) {
  int64_t bytes = element_width(dtype);
  if (bytes == 0) return std::nullopt;
  for (const int64_t extent : shape) {
    if (extent < 0 || __builtin_mul_overflow(bytes, extent, &bytes)) return std::nullopt;
  }
  return bytes;
}

std::vector<int64_t> shard_sizes(std::span<const TensorInfo> tensors, int64_t shard_bytes) {
  std::vector<int64_t> sizes;
  int64_t room = 0;  // in the last shard
  for (const TensorInfo& tensor : tensors) {
    const int64_t width = element_width(tensor.dtype);
    int64_t left = tensor.bytes;
    while (left > 0) {
      if (room < width) {
        sizes.push_back(0);
        room = std::max(shard_bytes, width);
      }
      const int64_t taken = std::min(left, room / width * width);
      sizes.back() += taken;
      room -= taken;
      left -= taken;
    }
  }
  return sizes;
}

std::optional<std::vector<TensorRange>> ranges_of(std::span<const TensorInfo> tensors, int64_t first_byte, int64_t bytes) {
  std::vector<TensorRange> ranges;
  int64_t tensor_first = 0;
  for (size_t i = 0; i < tensors.size() && bytes > 0; tensor_first += tensors[i++].bytes) {
    const int64_t offset = first_byte - tensor_first;
    if (offset >= tensors[i].bytes) continue;
    const int width = element_width(tensors[i].dtype);
    const int64_t taken = std::min(bytes, tensors[i].bytes - offset);
    if (offset % width != 0 || taken % width != 0) return std::nullopt;
    ranges.push_back({i, offset, taken, width});
    first_byte += taken;
    bytes -= taken;
  }
  if (bytes > 0) return std::nullopt;
  return ranges;
}

}  // namespace holdfast::storage
