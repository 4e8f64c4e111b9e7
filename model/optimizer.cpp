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

std::optional<Schedule> schedule_named(std::string_view name) {
  if (name == "cosine") return Schedule::kCosine;
  if (name == "linear") return Schedule::kLinear;
  if (name == "constant") return Schedule::kConstant;
  if (name == "wsd") return Schedule::kWarmupStableDecay;
  return std::nullopt;
}

double learning_rate_at(const OptimizerConfig& config, int64_t step) {
  const int64_t since = step - config.schedule_start, warm = config.schedule_start + config.warmup_steps;
  if (since < 0) return config.min_lr;
  const double lowest = config.schedule_start > 0 ? config.min_lr : 0, falls = config.learning_rate - config.min_lr;
  if (since < config.warmup_steps) {
    return lowest + (config.learning_rate - lowest) * static_cast<double>(since + 1) / static_cast<double>(config.warmup_steps);
  }
  if (config.schedule == Schedule::kConstant) return config.learning_rate;
  const bool is_late = config.schedule == Schedule::kWarmupStableDecay;
  const int64_t steps = std::max<int64_t>(0, config.total_steps - warm);  // after the warm-up
  int64_t decay = steps;
  if (is_late) decay = std::max<int64_t>(1, (config.total_steps - config.schedule_start) / 10);
  if (config.decay_steps > 0) decay = config.decay_steps;
  decay = std::min(decay, steps);
  const int64_t first = is_late ? config.total_steps - decay : warm;
  if (step < first) return config.learning_rate;
  if (step >= first + decay) return config.min_lr;
  const double done = static_cast<double>(step - first) / static_cast<double>(decay);
  if (config.schedule == Schedule::kCosine) return config.min_lr + 0.5 * falls * (1 + portable_cos_half_turns(done));
  return config.min_lr + falls * (1 - done);
}

std::vector<double> squares_of(kernels::DeviceOps& ops, std::span<const kernels::DeviceOps::Floats> chunks) {
  std::vector<double> squares(chunks.size());
  ops.sums_of_squares(squares.data(), chunks.data(), chunks.size());
  return squares;
}

double norm_of(std::span<const double> squares) {
  double sum = 0;
  for (const double chunk : squares) sum += chunk;
  return std::sqrt(sum);
}

double norm_of(kernels::DeviceOps& ops, std::span<const Elements> chunks, const float* gradient) {
  std::vector<kernels::DeviceOps::Floats> all;
  for (const Elements& chunk : chunks) all.push_back({gradient + chunk.first, chunk.count});
  return norm_of(squares_of(ops, all));
}

void apply_adamw(kernels::DeviceOps& ops, const ParameterTable& table, const OptimizerConfig& config, const AdamWTensors& at,
                 int64_t step, int64_t moments_step, double norm, double gradient_scale) {
  kernels::AdamWStep settings{};
  settings.learning_rate = static_cast<float>(learning_rate_at(config, step));
  settings.beta1 = static_cast<float>(config.beta1);
  settings.beta2 = static_cast<float>(config.beta2);
  settings.epsilon = static_cast<float>(config.epsilon);
  settings.beta1_correction = static_cast<float>(1 - portable_power(config.beta1, moments_step + 1));
  settings.beta2_correction = static_cast<float>(1 - portable_power(config.beta2, moments_step + 1));
  settings.gradient_scale = static_cast<float>(clip_factor(config.grad_clip, norm) * gradient_scale);
  const auto place = [](Layout layout, const OwnedElements& owned, int64_t element) {
    return layout == Layout::kTable ? element : owned.at + (element - owned.elements.first);
  };
  for (const OwnedElements& owned : at.owned) {
    for (const auto& [tensor, part] : table.cut(owned.elements)) {
      settings.weight_decay = table.entries[tensor].decay ? static_cast<float>(config.weight_decay) : 0.0F;
      const int64_t most = at.gradient.sums == nullptr ? part.count : kUnpackedElements, end = part.first + part.count;
      for (int64_t first = part.first; first < end; first += most) {
        const int64_t count = std::min(most, end - first), moments = place(at.moments_layout, owned, first),
                      from = place(at.gradient.layout, owned, first);
        const float* gradient = at.gradient.floats + from;
        if (at.gradient.sums != nullptr) {
          ops.fixed_unpack(at.unpacked, at.gradient.sums + from, count, at.gradient.scales[tensor]);
          gradient = at.unpacked;
        }
        ops.adamw(at.parameters + place(at.parameters_layout, owned, first), at.m + moments, at.v + moments, gradient, count,
                  settings);
      }
    }
  }
}

}  // namespace holdfast::model
