#include "worker/collectives/quantized_reduce.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "worker/collectives/block_quantized.h"

namespace holdfast::worker {
namespace {

constexpr size_t kPieceElements = 4 << 20;  // some milliseconds at 10 Gbit/s: the latency of each piece is little beside that

struct Segment {  // whole blocks, but for the last one of a piece
  size_t first, count;
};

std::vector<Segment> segments_of(size_t elements, size_t ranks) {
  const size_t blocks = (elements + kQuantizedBlock - 1) / kQuantizedBlock;
  std::vector<Segment> segments;
  for (size_t rank = 0; rank < ranks; ++rank) {
    const size_t first = std::min(elements, blocks * rank / ranks * kQuantizedBlock);
    segments.push_back({first, std::min(elements, blocks * (rank + 1) / ranks * kQuantizedBlock) - first});
  }
  return segments;
}

// The segments' bytes in a piece that was quantized.
template <typename Byte>
std::vector<std::span<Byte>> bytes_of(std::span<Byte> quantized, std::span<const Segment> segments) {
  std::vector<std::span<Byte>> blocks;
  for (const Segment& segment : segments)
    blocks.push_back(quantized.subspan(quantized_bytes(segment.first), quantized_bytes(segment.count)));
  return blocks;
}

void add(std::span<const float> a, std::span<const float> b, std::span<float> sum) {
  for (size_t i = 0; i < sum.size(); ++i) sum[i] = a[i] + b[i];
}

}  // namespace

QuantizedReduction::QuantizedReduction(size_t elements) : errors_(elements), next_errors_(elements) {}

void QuantizedReduction::commit() {
  for (const auto& [first, count] : reduced_) std::copy_n(next_errors_.data() + first, count, errors_.data() + first);
  any_ = any_ || !reduced_.empty();
  reduced_.clear();
}

void QuantizedReduction::forget() {
  reduced_.clear();
  if (std::exchange(any_, false)) std::ranges::fill(errors_, 0.0F);
}

CollectiveResult<void> QuantizedReduction::reduce(Communicator& ring, size_t first, std::span<const float> mine,
                                                  std::span<float> sum) {
  if (mine.size() != sum.size() || first > errors_.size() || mine.size() > errors_.size() - first) {
    throw std::invalid_argument("quantized reduce: " + std::to_string(mine.size()) + " elements from " + std::to_string(first) +
                                " on into " + std::to_string(sum.size()) + ", of a vector of " +
                                std::to_string(errors_.size()));
  }
  if (ring.world_size() == 1) {
    std::ranges::copy(mine, sum.begin());
    return {};
  }
  const std::span<const float> before = std::span(errors_).subspan(first, mine.size());
  const std::span<float> error = std::span(next_errors_).subspan(first, mine.size());
  for (size_t at = 0; at < mine.size(); at += kPieceElements) {
    const size_t count = std::min(kPieceElements, mine.size() - at);
    const auto done = reduce_piece(ring, mine.subspan(at, count), before.subspan(at, count), error.subspan(at, count),
                                   sum.subspan(at, count));
    if (!done) return done;
  }
  reduced_.insert_or_assign(first, mine.size());
  return {};
}

CollectiveResult<void> QuantizedReduction::reduce_piece(Communicator& ring, std::span<const float> mine,
                                                        std::span<const float> before, std::span<float> error,
                                                        std::span<float> sum) {
  const auto ranks = static_cast<size_t>(ring.world_size());
  const auto segments = segments_of(mine.size(), ranks);
  const Segment& own = segments[static_cast<size_t>(ring.rank())];
  brought_.resize(quantized_bytes(mine.size()));
  gathered_.resize(brought_.size());
  received_.resize(ranks * quantized_bytes(own.count));

  add(mine, before, error);
  quantize(error, brought_);
  subtract_dequantized(brought_, error);

  std::vector<std::span<std::byte>> from;
  for (size_t rank = 0; rank < ranks; ++rank)
    from.push_back(std::span(received_).subspan(rank * quantized_bytes(own.count), quantized_bytes(own.count)));
  if (auto done = ring.all_to_all(bytes_of(std::span<const std::byte>(brought_), segments), from); !done) return done;

  const std::span<float> owned = sum.subspan(own.first, own.count);
  dequantize(from[0], owned);
  for (size_t rank = 1; rank < ranks; ++rank) add_dequantized(from[rank], owned);
  const auto results = bytes_of(std::span(gathered_), segments);
  const std::span<std::byte> result = results[static_cast<size_t>(ring.rank())];
  quantize(owned, result);
  subtract_dequantized(result, owned);
  const std::span<float> owned_error = error.subspan(own.first, own.count);
  add(owned_error, owned, owned_error);

  if (auto done = ring.all_gather_into(results); !done) return done;
  dequantize(gathered_, sum);
  return {};
}

}  // namespace holdfast::worker
