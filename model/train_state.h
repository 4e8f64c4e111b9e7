// Everything that decides the bits of the steps to come: parameters, AdamW moments, reduction exponents, in float16 the loss
// scale, and the step.
//
// Promises: `tensors()` lists it all as named byte spans in one fixed order; saving, hashing and copying walk that list
// and nothing else, so what is hashed is what is saved is what is copied.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/gpt2.h"
#include "model/loss_scale.h"
#include "model/optimizer.h"

namespace holdfast::model {

// A tensor of the state as bytes, in device memory unless `on_host`.
struct StateTensor {
  std::string name;   // "wte.weight", "exp_avg/wte.weight", "exp_avg_sq/wte.weight", "reduction/exponents", "loss_scale"
  std::string dtype;  // "float32", "int32"
  std::vector<int64_t> shape;
  std::byte* data;
  size_t bytes;
  bool on_host = false;  // the exponents, the loss scale
};

class TrainState {
 public:
  // `model` and `ops` outlive the state. Moments start at 0, exponents unset, step 0. The model's loss scale is from now on
  // what this says; in other dtypes than float16 that is 1.
  TrainState(Gpt2& model, kernels::DeviceOps& ops);

  int64_t step = 0;  // steps applied

  // One per parameter tensor: the power of two of the next step's fixed-point scale; kUnsetExponent before the first.
  static constexpr int32_t kUnsetExponent = INT32_MIN;
  std::span<int32_t> exponents();

  // Applies one AdamW step with `gradients` (model.table().total floats, the mean over the global batch, on the
  // device), and step += 1. Returns the global gradient norm before clipping. A norm that is not finite changes nothing.
  double apply(const OptimizerConfig& config, const float* gradients);
  // The step is left out, for it has no finite gradient: step += 1, and in float16 the loss scale is halved.
  void leave_out();

  // Applies one outer step (SGD with Nesterov momentum, which takes exp_avg's place; exp_avg_sq stays 0) with the mean over
  // replicas of how far their local steps led, before - after. Otherwise as `apply`; the norm is that of the mean.
  double apply_outer(const kernels::NesterovStep& settings, const float* difference);

  // That of the next step, as a power of two. `gradients` of `apply` are without it.
  int loss_scale_log2() const { return loss_scale_ ? loss_scale_->log2 : 0; }

  // Parameters, then exp_avg, then exp_avg_sq, each in table order, then the exponents; in float16 then the loss scale: its
  // power of two, and the number of steps since it changed. For the host: host_state.h.
  std::vector<StateTensor> tensors();
  // After bytes of tensors() were written from outside.
  void bytes_changed();

  // XXH3-128 over the bytes of tensors(), in order; 32 lower-case hex digits.
  std::string hash();

 private:
  double applied(double norm);

  Gpt2& model_;
  kernels::DeviceOps& ops_;
  DeviceBuffer m_, v_;
  std::vector<int32_t> exponents_;
  std::optional<LossScale> loss_scale_;  // of float16
};

}  // namespace holdfast::model
