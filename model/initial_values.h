// The parameters of state 0, a tensor of the table at a time, from whatever they are made of: a seed, or another model's
// weights.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <tl/expected.hpp>

#include "model/parameter_table.h"

namespace holdfast::model {

class InitialValues {
 public:
  virtual ~InitialValues() = default;
  // `values`: as many as the tensor has. The error is a sentence that names what could not be read.
  virtual tl::expected<void, std::string> fill(size_t tensor, std::span<float> values) const = 0;
};

// Normal(0, 0.02), residual projections scaled by 1/sqrt(2 n_layer), LayerNorm weights 1, biases 0 (Radford et al. 2019,
// section 2.3). A pure function of (config, seed): each element draws from its own counter. Never fails.
class SeededValues final : public InitialValues {
 public:
  SeededValues(const Gpt2Config& config, uint64_t seed) : table_(config), n_layer_(config.n_layer), seed_(seed) {}
  tl::expected<void, std::string> fill(size_t tensor, std::span<float> values) const override;

 private:
  ParameterTable table_;
  int64_t n_layer_;
  uint64_t seed_;
};

// The error names the first bias of the table that is not 0, or what could not be read.
tl::expected<void, std::string> expect_no_biases(const InitialValues& initial, const ParameterTable& table);

}  // namespace holdfast::model
