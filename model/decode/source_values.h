// The parameters of a WeightSource, a tensor at a time, for a model that begins with them or computes with them.
//
// Several tensors are read at once, up to `group_bytes` or one tensor, since they lie in the same files. Errors: the source's.
// Thread: one at a time.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

#include "model/exchange/weight_source.h"
#include "model/initial_values.h"

namespace holdfast::model {

class SourceValues final : public InitialValues {
 public:
  explicit SourceValues(WeightSource source, size_t group_bytes = size_t{256} << 20)
      : source_(std::move(source)), table_(source_.config), group_bytes_(group_bytes) {}
  tl::expected<void, std::string> fill(size_t tensor, std::span<float> values) const override;

 private:
  WeightSource source_;
  ParameterTable table_;
  size_t group_bytes_;
  mutable size_t first_ = 0;
  mutable std::vector<std::vector<float>> group_;  // of the tensors from first_ on
};

}  // namespace holdfast::model
