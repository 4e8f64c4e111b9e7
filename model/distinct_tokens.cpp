#include "model/distinct_tokens.h"

#include <algorithm>

namespace holdfast::model {

DistinctTokens::DistinctTokens(size_t tokens) {
  sorted_.reserve(tokens);
  runs_.reserve(3 * tokens + 1);
}

void DistinctTokens::find(std::span<const int32_t> tokens) {
  sorted_.clear();
  for (size_t n = 0; n < tokens.size(); ++n) sorted_.push_back(static_cast<uint64_t>(tokens[n]) << 32 | n);
  std::ranges::sort(sorted_);
  const auto token_at = [this](size_t i) { return static_cast<int32_t>(sorted_[i] >> 32); };
  const auto begins_run = [&](size_t i) { return i == 0 || token_at(i) != token_at(i - 1); };
  runs_.clear();
  for (size_t i = 0; i < sorted_.size(); ++i) {
    if (begins_run(i)) runs_.push_back(token_at(i));
  }
  distinct_ = runs_.size();
  for (size_t i = 0; i < sorted_.size(); ++i) {
    if (begins_run(i)) runs_.push_back(static_cast<int32_t>(i));
  }
  runs_.push_back(static_cast<int32_t>(sorted_.size()));
  for (const uint64_t both : sorted_) runs_.push_back(static_cast<int32_t>(both & 0xffffffffU));
}

}  // namespace holdfast::model
