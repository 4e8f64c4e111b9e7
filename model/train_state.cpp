#include "model/train_state.h"

#include <algorithm>
#include <cmath>

#include "model/digest.h"
#include "model/portable_math.h"

namespace holdfast::model {

namespace {

// What the optimizer multiplies gradients with so that their norm is at most `clip` (torch.nn.utils.clip_grad_norm_).
float clip_factor(double clip, double norm) {
  if (clip <= 0) return 1.0F;
  return static_cast<float>(std::min(1.0, clip / (norm + 1e-6)));
}

kernels::AdamWStep adamw_step(const OptimizerConfig& config, int64_t step, double norm) {
  kernels::AdamWStep settings{};
  settings.learning_rate = static_cast<float>(learning_rate_at(config, step));
  settings.beta1 = static_cast<float>(config.beta1);
  settings.beta2 = static_cast<float>(config.beta2);
  settings.epsilon = static_cast<float>(config.epsilon);
  settings.beta1_correction = static_cast<float>(1 - portable_power(config.beta1, step + 1));
  settings.beta2_correction = static_cast<float>(1 - portable_power(config.beta2, step + 1));
  settings.gradient_scale = clip_factor(config.grad_clip, norm);
  return settings;
}

}  // namespace

double learning_rate_at(const OptimizerConfig& config, int64_t step) {
  if (step < config.warmup_steps) {
    return config.learning_rate * static_cast<double>(step + 1) / static_cast<double>(config.warmup_steps);
  }
  if (step >= config.total_steps) return config.min_lr;
  const double done =
      static_cast<double>(step - config.warmup_steps) / static_cast<double>(config.total_steps - config.warmup_steps);
  return config.min_lr + 0.5 * (config.learning_rate - config.min_lr) * (1 + portable_cos_half_turns(done));
}

TrainState::TrainState(Gpt2& model, kernels::DeviceOps& ops)
    : model_(model),
      ops_(ops),
      m_(ops, static_cast<size_t>(model.table().total) * sizeof(float)),
      v_(ops, static_cast<size_t>(model.table().total) * sizeof(float)),
      exponents_(model.table().entries.size(), kUnsetExponent) {
  ops_.zero(m_.data<void>(), m_.bytes());
  ops_.zero(v_.data<void>(), v_.bytes());
}

std::span<int32_t> TrainState::exponents() {
  return exponents_;
}

double TrainState::apply(const OptimizerConfig& config, const float* gradients) {
  const double norm = std::sqrt(ops_.sum_of_squares(gradients, model_.table().total));
  if (!std::isfinite(norm)) return norm;
  kernels::AdamWStep settings = adamw_step(config, step, norm);
  for (const Parameter& parameter : model_.table().entries) {
    settings.weight_decay = parameter.decay ? static_cast<float>(config.weight_decay) : 0.0F;
    const int64_t at = parameter.offset;
    ops_.adamw(model_.parameters() + at, m_.data<float>() + at, v_.data<float>() + at, gradients + at, parameter.count,
               settings);
  }
  model_.parameters_changed();
  step += 1;
  return norm;
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
  return all;
}

void TrainState::bytes_changed() {
  model_.parameters_changed();
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
