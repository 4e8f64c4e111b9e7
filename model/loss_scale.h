// With what power of two gradients are computed in float16 (Micikevicius et al. 2018, section 3.2), and how it is found.
//
// float16 ends at 65504 above and at 2^-24 below, and most gradients of activations are smaller. Scaled up from the loss on
// they are all kept; that is undone, exactly, where the gradients of parameters are packed, for those are float32. Too large a
// scale makes some gradient infinite: the step is left out, and the scale halved. After many steps without that it is doubled.
// Promises: a pure function of which steps were left out. It is part of the training state, so every worker has the same one.
#pragma once

#include <cstdint>

namespace holdfast::model {

struct LossScale {
  static constexpr int32_t kFirstLog2 = 16, kMostLog2 = 24;
  static constexpr int32_t kStepsToDouble = 1000;

  int32_t log2 = kFirstLog2;  // 0 to kMostLog2
  int32_t accepted = 0;       // steps in a row that were applied under this scale

  void step_applied() {
    if (++accepted < kStepsToDouble) return;
    accepted = 0;
    if (log2 < kMostLog2) ++log2;
  }
  void step_left_out() {
    accepted = 0;
    if (log2 > 0) --log2;
  }
};
static_assert(sizeof(LossScale) == 2 * sizeof(int32_t), "it is a tensor of two numbers in checkpoints");

}  // namespace holdfast::model
