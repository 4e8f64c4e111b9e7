// The optimizer's settings and schedule, and one step of AdamW over a model's tensors.
//
// Promises: pure functions of their arguments; the same bits on every machine.
#pragma once

#include <cstdint>

#include "kernels/ops.h"
#include "model/parameter_table.h"

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

// Of parameters that lie as `table` says: total floats each, on the device.
struct AdamWTensors {
  float *parameters, *m, *v;
  const float* gradient;
};

// One step with the learning rate of `step` and moments that have seen `moments_step` steps before. The gradient counts
// `gradient_scale` times, and is clipped to the configuration's norm. Returns the norm of the gradient, scaled, before
// clipping. A norm that is not finite changes nothing.
double apply_adamw(kernels::DeviceOps& ops, const ParameterTable& table, const OptimizerConfig& config, const AdamWTensors& at,
                   int64_t step, int64_t moments_step, double gradient_scale = 1);

}  // namespace holdfast::model
