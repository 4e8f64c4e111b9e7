// Parameters that a test has in its hands, as the beginning of a model.
#pragma once

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "model/initial_values.h"

namespace holdfast::model {

class KnownValues final : public InitialValues {
 public:
  KnownValues(std::vector<float> flat, const Gpt2Config& config) : flat_(std::move(flat)), table_(config) {}
  tl::expected<void, std::string> fill(size_t tensor, std::span<float> values) const override {
    const Parameter& entry = table_.entries[tensor];
    std::copy_n(flat_.begin() + entry.offset, entry.count, values.begin());
    return {};
  }

 private:
  std::vector<float> flat_;
  ParameterTable table_;
};

}  // namespace holdfast::model
