#include "model/optimizer.h"

#include <algorithm>
#include <cmath>

#include "model/portable_math.h"

namespace holdfast::model {
namespace {

// The factor for gradients that brings their norm to at most `clip` (torch.nn.utils.clip_grad_norm_).
double clip_factor(double clip, double norm) {
  return clip <= 0 ? 1.0 : std::min(1.0, clip / (norm + 1e-6));
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

double apply_adamw(kernels::DeviceOps& ops, const ParameterTable& table, const OptimizerConfig& config, const AdamWTensors& at,
                   int64_t step, int64_t moments_step, double gradient_scale) {
  const double norm = std::sqrt(ops.sum_of_squares(at.gradient, table.total)) * gradient_scale;
  if (!std::isfinite(norm)) return norm;
  kernels::AdamWStep settings{};
  settings.learning_rate = static_cast<float>(learning_rate_at(config, step));
  settings.beta1 = static_cast<float>(config.beta1);
  settings.beta2 = static_cast<float>(config.beta2);
  settings.epsilon = static_cast<float>(config.epsilon);
  settings.beta1_correction = static_cast<float>(1 - portable_power(config.beta1, moments_step + 1));
  settings.beta2_correction = static_cast<float>(1 - portable_power(config.beta2, moments_step + 1));
  settings.gradient_scale = static_cast<float>(clip_factor(config.grad_clip, norm) * gradient_scale);
  for (const Parameter& parameter : table.entries) {
    settings.weight_decay = parameter.decay ? static_cast<float>(config.weight_decay) : 0.0F;
    const int64_t offset = parameter.offset;
    ops.adamw(at.parameters + offset, at.m + offset, at.v + offset, at.gradient + offset, parameter.count, settings);
  }
  return norm;
}

}  // namespace holdfast::model
