#include "model/data/training_data.h"

#include <cassert>
#include <utility>

namespace holdfast::model {

TrainingData::TrainingData(std::vector<TrainingSource> sources, uint64_t seed, const BatchShape& shape)
    : shape_(shape), sources_(std::move(sources)) {
  mixture_.seed = seed;
  for (const TrainingSource& source : sources_) {
    assert(source.share > 0 && windows_in(source.tokens, shape.block_size) > 0);
    mixture_.shares.push_back(source.share);
    orders_.push_back({mixture_.seed_of(orders_.size()), windows_in(source.tokens, shape.block_size)});
  }
}

std::vector<TrainingWindow> TrainingData::windows_of(int64_t step, int64_t microbatch) const {
  const int64_t first = (step * shape_.microbatches + microbatch) * shape_.batch_size;
  std::vector<TrainingWindow> windows;
  for (const auto& [source, number] : mixture_.deal(first, shape_.batch_size)) {
    const DataOrder& order = orders_[source];
    const int64_t window = order.window_at(number / order.windows, number % order.windows);
    windows.push_back({source, static_cast<size_t>(window * shape_.block_size)});
  }
  return windows;
}

void TrainingData::fill(int64_t step, int64_t microbatch, std::span<int32_t> inputs, std::span<int32_t> targets) const {
  assert(inputs.size() == static_cast<size_t>(shape_.tokens()) && targets.size() == inputs.size());
  const auto block = static_cast<size_t>(shape_.block_size);
  size_t at = 0;
  for (const TrainingWindow& window : windows_of(step, microbatch)) {
    const TrainingSource& source = sources_[window.source];
    if (source.arrival != nullptr) source.arrival->wait_for(window.first_token, block + 1);
    copy_window(source.tokens, window.first_token, inputs.subspan(at, block), targets.subspan(at, block));
    at += block;
  }
}

}  // namespace holdfast::model
