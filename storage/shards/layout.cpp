#include "storage/shards/layout.h"

#include <fmt/format.h>

#include <algorithm>

#include "storage/state_hash.h"

namespace holdfast::storage {
namespace {

using Contents = tl::expected<std::vector<ShardContents>, std::string>;

int64_t bytes_of(std::span<const TensorInfo> tensors) {
  int64_t total = 0;
  for (const TensorInfo& tensor : tensors) total += tensor.bytes;
  return total;
}

tl::unexpected<std::string> wrong_total(int64_t held, int64_t total) {
  return tl::unexpected(fmt::format("hold {} bytes in all, the tensors have {}", held, total));
}

// Shards that follow one another.
Contents in_order(std::span<const TensorInfo> tensors, std::span<const ShardInfo> shards) {
  const int64_t total = bytes_of(tensors);
  std::vector<ShardContents> contents;
  int64_t first = 0;
  for (const ShardInfo& shard : shards) {
    auto ranges = shard.raw_bytes > total - first ? std::nullopt : ranges_of(tensors, first, shard.raw_bytes);
    if (!ranges) {
      return tl::unexpected(fmt::format("cuts the tensors' {} bytes at {} + {}, beyond them or inside an element", total, first,
                                        shard.raw_bytes));
    }
    contents.push_back({first, std::move(*ranges)});
    first += shard.raw_bytes;
  }
  if (first != total) return wrong_total(first, total);
  return contents;
}

// Shards that name their pieces.
class ByPieces {
 public:
  explicit ByPieces(std::span<const TensorInfo> tensors) : table_(tensors), held_(table_.size()) {}

  Contents contents(std::span<const ShardInfo> shards) {
    std::vector<ShardContents> all;
    for (const ShardInfo& shard : shards) {
      auto held = contents_of_one(shard);
      if (!held) return tl::unexpected(std::move(held.error()));
      all.push_back(std::move(*held));
    }
    const auto missing = std::ranges::find(held_, false);
    if (missing != held_.end())
      return tl::unexpected(fmt::format("lack piece {} of the state's {}", missing - held_.begin(), held_.size()));
    return all;
  }

 private:
  tl::expected<ShardContents, std::string> contents_of_one(const ShardInfo& shard) {
    ShardContents contents;
    int64_t bytes = 0;
    for (const PieceRun& run : shard.pieces) {
      const auto count = static_cast<int64_t>(table_.size());
      if (run.first < 0 || run.count < 1 || run.first > count || run.count > count - run.first) {
        return tl::unexpected(
            fmt::format("name pieces {} + {} in {}, the state has {}", run.first, run.count, shard.key, count));
      }
      for (int64_t number = run.first; number < run.first + run.count; ++number) {
        const auto at = static_cast<size_t>(number);
        if (held_[at]) return tl::unexpected(fmt::format("name piece {} twice, the second time in {}", number, shard.key));
        held_[at] = true;
        if (contents.ranges.empty()) contents.first_byte = table_.first_byte(at);
        append(contents.ranges, table_[at]);
        bytes += table_[at].bytes;
      }
    }
    if (shard.pieces.empty()) return tl::unexpected(fmt::format("name no pieces in {}, but in others", shard.key));
    if (bytes == shard.raw_bytes) return contents;
    return tl::unexpected(fmt::format("say that {} holds {} bytes, its pieces have {}", shard.key, shard.raw_bytes, bytes));
  }

  // Pieces that follow one another in a tensor are one range.
  static void append(std::vector<TensorRange>& ranges, const TensorRange& piece) {
    if (!ranges.empty() && ranges.back().tensor == piece.tensor && ranges.back().offset + ranges.back().bytes == piece.offset) {
      ranges.back().bytes += piece.bytes;
    } else {
      ranges.push_back(piece);
    }
  }

  PieceTable table_;
  std::vector<bool> held_;
};

}  // namespace

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

PieceTable::PieceTable(std::span<const TensorInfo> tensors) {
  int64_t first = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const int width = element_width(tensors[i].dtype);
    first_bytes_.push_back(first);
    first += tensors[i].bytes;
    for (int64_t at = 0; at < tensors[i].bytes; at += kPieceElements * width)
      pieces_.push_back({i, at, std::min(kPieceElements * width, tensors[i].bytes - at), width});
  }
}

Contents contents_of(std::span<const TensorInfo> tensors, std::span<const ShardInfo> shards) {
  const bool by_pieces = std::ranges::any_of(shards, [](const ShardInfo& shard) { return !shard.pieces.empty(); });
  if (!by_pieces) return in_order(tensors, shards);
  int64_t held = 0;
  for (const ShardInfo& shard : shards) held += shard.raw_bytes;
  const int64_t total = bytes_of(tensors);
  return held == total ? ByPieces(tensors).contents(shards) : wrong_total(held, total);
}

}  // namespace holdfast::storage
