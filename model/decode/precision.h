// The numbers that texts are written with, by the names that people give: --precision, and `precision` of a job that serves.
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "kernels/decode_ops.h"
#include "kernels/ops.h"

namespace holdfast::model {

struct Precision {
  std::string_view name;
  kernels::DType activations;
  kernels::WeightForm weights;
};

inline constexpr std::array<Precision, 5> kPrecisions = {{
    {"float32", kernels::DType::kFloat32, kernels::WeightForm::kActivations},
    {"bfloat16", kernels::DType::kBFloat16, kernels::WeightForm::kActivations},
    {"float16", kernels::DType::kFloat16, kernels::WeightForm::kActivations},
    {"int8", kernels::DType::kBFloat16, kernels::WeightForm::kInt8},
    {"int4", kernels::DType::kBFloat16, kernels::WeightForm::kInt4},
}};

constexpr std::optional<Precision> precision_named(std::string_view name) {
  for (const Precision& precision : kPrecisions) {
    if (precision.name == name) return precision;
  }
  return std::nullopt;
}

}  // namespace holdfast::model
