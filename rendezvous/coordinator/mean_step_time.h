// The mean duration of a job's latest steps, from which its tokens per second and its end are estimated.
#pragma once

#include "rendezvous/protocol/messages.h"

namespace holdfast::rendezvous {

// Exponentially weighted: a step counts for a fifth of the mean, the one before it for a fifth of the rest, and so on.
struct MeanStepTime {
  double step_s = 0;           // 0: no step was timed yet
  double communication_s = 0;  // the part of step_s spent waiting for other workers

  // A point without a duration (a step that a generation did not time) changes nothing.
  void add(const StepPoint& point) {
    constexpr double kWeight = 0.2;
    if (!(point.step_s > 0)) return;
    const bool first = step_s == 0;
    step_s = first ? point.step_s : (1 - kWeight) * step_s + kWeight * point.step_s;
    communication_s = first ? point.communication_s : (1 - kWeight) * communication_s + kWeight * point.communication_s;
  }
};

}  // namespace holdfast::rendezvous
