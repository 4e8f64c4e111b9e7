#include "model/initial_values.h"

#include <algorithm>
#include <cmath>

#include "model/random.h"

namespace holdfast::model {
namespace {

// Standard deviation of a matrix's initial elements. Each layer adds two branches to the residual stream; the factor
// keeps the stream's variance from growing with the depth (Radford et al. 2019, section 2.3).
double initial_deviation(const Parameter& parameter, int64_t n_layer) {
  return parameter.name.ends_with("c_proj.weight") ? 0.02 / std::sqrt(2.0 * static_cast<double>(n_layer)) : 0.02;
}

}  // namespace

tl::expected<void, std::string> SeededValues::fill(size_t tensor, std::span<float> values) const {
  const Parameter& parameter = table_.entries[tensor];
  if (parameter.shape.size() == 2) {
    const double deviation = initial_deviation(parameter, n_layer_);
    const auto stream = static_cast<uint32_t>(tensor);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(deviation * normal_at(seed_, stream, i));
  } else {
    std::ranges::fill(values, parameter.name.ends_with(".weight") ? 1.0F : 0.0F);  // LayerNorm
  }
  return {};
}

tl::expected<void, std::string> expect_no_biases(const InitialValues& initial, const ParameterTable& table) {
  for (size_t i = 0; i < table.entries.size(); ++i) {
    if (!table.entries[i].is_bias()) continue;
    std::vector<float> values(static_cast<size_t>(table.entries[i].count));
    if (auto filled = initial.fill(i, values); !filled) return filled;
    if (std::ranges::any_of(values, [](float value) { return value != 0; }))
      return tl::unexpected(table.entries[i].name + " is not 0 there, and the job has biases off: leave that out");
  }
  return {};
}

}  // namespace holdfast::model
