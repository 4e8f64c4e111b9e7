#include "model/train_state.h"

#include <algorithm>
#include <cmath>

#include "model/digest.h"

namespace holdfast::model {

TrainState::TrainState(Gpt2& model, kernels::DeviceOps& ops)
    : model_(model),
      ops_(ops),
      m_(ops, static_cast<size_t>(model.table().total) * sizeof(float)),
      v_(ops, static_cast<size_t>(model.table().total) * sizeof(float)),
      exponents_(model.table().entries.size(), kUnsetExponent) {
  ops_.zero(m_.data<void>(), m_.bytes());
  ops_.zero(v_.data<void>(), v_.bytes());
  if (ops.activation_dtype() == kernels::DType::kFloat16) loss_scale_.emplace();
  model_.set_loss_scale(loss_scale_log2());
}

std::span<int32_t> TrainState::exponents() {
  return exponents_;
}

double TrainState::apply(const OptimizerConfig& config, const float* gradients) {
  const AdamWTensors tensors{model_.parameters(), m_.data<float>(), v_.data<float>(), gradients};
  return applied(apply_adamw(ops_, model_.table(), config, tensors, step, step));
}

double TrainState::apply_outer(const kernels::NesterovStep& settings, const float* difference) {
  const int64_t total = model_.table().total;
  const double norm = std::sqrt(ops_.sum_of_squares(difference, total));
  if (std::isfinite(norm)) ops_.nesterov(model_.parameters(), m_.data<float>(), difference, total, settings);
  return applied(norm);
}

// Counts the step, unless its gradient has changed nothing.
double TrainState::applied(double norm) {
  if (!std::isfinite(norm)) return norm;
  model_.parameters_changed();
  step += 1;
  if (loss_scale_) loss_scale_->step_applied();
  model_.set_loss_scale(loss_scale_log2());
  return norm;
}

void TrainState::leave_out() {
  step += 1;
  if (loss_scale_) loss_scale_->step_left_out();
  model_.set_loss_scale(loss_scale_log2());
}

std::vector<StateTensor> TrainState::tensors() {
  std::vector<StateTensor> all;
  const auto add_floats = [this, &all](const std::string& prefix, float* flat) {
    for (const Parameter& parameter : model_.table().entries) {
      all.push_back({prefix + parameter.name, "float32", parameter.shape, reinterpret_cast<std::byte*>(flat + parameter.offset),
                     static_cast<size_t>(parameter.count) * sizeof(float)});
    }
  };
  add_floats("", model_.parameters());
  add_floats("exp_avg/", m_.data<float>());
  add_floats("exp_avg_sq/", v_.data<float>());
  const std::span<std::byte> exponent_bytes = std::as_writable_bytes(exponents());
  all.push_back({"reduction/exponents",
                 "int32",
                 {static_cast<int64_t>(exponents_.size())},
                 exponent_bytes.data(),
                 exponent_bytes.size(),
                 true});
  if (loss_scale_) {
    all.push_back({"loss_scale", "int32", {2}, reinterpret_cast<std::byte*>(&*loss_scale_), sizeof(LossScale), true});
  }
  return all;
}

void TrainState::bytes_changed() {
  model_.parameters_changed();
  model_.set_loss_scale(loss_scale_log2());
}

std::string TrainState::hash() {
  constexpr size_t kPieceBytes = 1 << 20;  // stays in the second-level cache between the copy and the hash
  std::vector<std::byte> piece(kPieceBytes);
  Digest128 digest;
  ops_.synchronize();
  for (const StateTensor& tensor : tensors()) {
    if (tensor.on_host) {
      digest.update({tensor.data, tensor.bytes});
      continue;
    }
    for (size_t begin = 0; begin < tensor.bytes; begin += kPieceBytes) {
      const size_t bytes = std::min(kPieceBytes, tensor.bytes - begin);
      ops_.copy_to_host(piece.data(), tensor.data + begin, bytes);
      digest.update({piece.data(), bytes});
    }
  }
  return digest.hex();
}

}  // namespace holdfast::model
