// A tensor of activations in host memory. It is made from floats, which it rounds, or filled with NaN, and is read as numbers.
#pragma once

#include <limits>
#include <variant>
#include <vector>

#include "kernels/dtype.h"

namespace holdfast::kernels::testing {

class ActTensor {
 public:
  ActTensor(DType dtype, const std::vector<float>& x) {
    switch (dtype) {
      case DType::kFloat32:
        data_ = x;
        break;
      case DType::kBFloat16:
        data_ = std::vector<BFloat16>(x.begin(), x.end());
        break;
      case DType::kFloat16:
        data_ = std::vector<Float16>(x.begin(), x.end());
        break;
    }
  }
  ActTensor(DType dtype, int64_t count)
      : ActTensor(dtype, std::vector<float>(static_cast<size_t>(count), std::numeric_limits<float>::quiet_NaN())) {}

  Act* act() {
    return std::visit([](auto& x) { return reinterpret_cast<Act*>(x.data()); }, data_);
  }
  const Act* act() const {
    return std::visit([](const auto& x) { return reinterpret_cast<const Act*>(x.data()); }, data_);
  }
  size_t bytes() const {
    return std::visit([](const auto& x) { return x.size() * sizeof x[0]; }, data_);
  }
  std::vector<double> values() const {
    return std::visit([](const auto& x) { return std::vector<double>(x.begin(), x.end()); }, data_);
  }

 private:
  std::variant<std::vector<float>, std::vector<BFloat16>, std::vector<Float16>> data_;
};

}  // namespace holdfast::kernels::testing
