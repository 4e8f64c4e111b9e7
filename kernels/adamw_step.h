// The scalars of one optimizer step, beside its tensors. A header of its own, without includes: vector/table.h takes nothing
// else.
#pragma once

namespace holdfast::kernels {

struct AdamWStep {
  float learning_rate, beta1, beta2, epsilon, weight_decay;
  float beta1_correction, beta2_correction;  // 1 - beta^t, computed once in double by the caller
  float gradient_scale;                      // clipping and averaging, applied to the gradient first
};

struct NesterovStep {
  float learning_rate, momentum;
};

}  // namespace holdfast::kernels
