#include "model/distinct_tokens.h"

#include <algorithm>

namespace holdfast::model {

DistinctTokens::DistinctTokens(size_t tokens) {
  ids_.reserve(tokens);
  places_.reserve(tokens);
}

void DistinctTokens::find(std::span<const int32_t> tokens) {
  ids_.assign(tokens.begin(), tokens.end());
  std::ranges::sort(ids_);
  const auto repeated = std::ranges::unique(ids_);
  ids_.erase(repeated.begin(), repeated.end());
  places_.clear();
  for (const int32_t token : tokens) {
    places_.push_back(static_cast<int32_t>(std::ranges::lower_bound(ids_, token) - ids_.begin()));
  }
}

}  // namespace holdfast::model
