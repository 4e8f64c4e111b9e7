// Everything that decides the bits of the steps to come: parameters, AdamW moments, reduction exponents, and the step.
//
// Promises: `tensors()` lists it all as named byte spans in one fixed order; saving, hashing and copying walk that list
// and nothing else, so what is hashed is what is saved is what is copied.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "model/gpt2.h"

namespace holdfast::model {

// AdamW and schedule settings, as in the job spec.
struct OptimizerConfig {
  double learning_rate = 0, min_lr = 0;
  int64_t warmup_steps = 0, total_steps = 0;
  double weight_decay = 0, beta1 = 0, beta2 = 0, epsilon = 1e-8, grad_clip = 0;  // grad_clip 0: no clipping
};

// Linear warm-up over warmup_steps, then a cosine down to min_lr at total_steps (Loshchilov, Hutter 2017, eq. 5).
// `step` counts from 0: the rate used by the step that leads from state `step` to state `step + 1`.
double learning_rate_at(const OptimizerConfig& config, int64_t step);

// A tensor of the state as bytes, in device memory unless `on_host`.
struct StateTensor {
  std::string name;   // "wte.weight", "exp_avg/wte.weight", "exp_avg_sq/wte.weight", "reduction/exponents"
  std::string dtype;  // "float32", "int32"
  std::vector<int64_t> shape;
  std::byte* data;
  size_t bytes;
  bool on_host = false;  // the exponents
};

class TrainState {
 public:
  // `model` and `ops` outlive the state. Moments start at 0, exponents unset, step 0.
  TrainState(Gpt2& model, kernels::DeviceOps& ops);

  int64_t step = 0;  // steps applied

  // One per parameter tensor: the power of two of the next step's fixed-point scale; kUnsetExponent before the first.
  static constexpr int32_t kUnsetExponent = INT32_MIN;
  std::span<int32_t> exponents();

  // Applies one AdamW step with `gradients` (model.table().total floats, the mean over the global batch, on the
  // device), and step += 1. Returns the global gradient norm before clipping. A norm that is not finite changes nothing.
  double apply(const OptimizerConfig& config, const float* gradients);

  // Parameters, then exp_avg, then exp_avg_sq, each in table order, then the exponents. Host-readable for cpu and ref.
  std::vector<StateTensor> tensors();
  // After bytes of tensors() were written from outside.
  void bytes_changed();

  // XXH3-128 over the bytes of tensors(), in order; 32 lower-case hex digits.
  std::string hash();

 private:
  Gpt2& model_;
  kernels::DeviceOps& ops_;
  DeviceBuffer m_, v_;
  std::vector<int32_t> exponents_;
};

}  // namespace holdfast::model
