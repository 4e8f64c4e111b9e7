// How much of its device's memory a worker needs for a job (worker/session/session.h says what is held).
//
// Promises: what a model's own buffers take is what the model says of itself. Left out: the scratch of the ops and of their
// libraries, some hundred megabytes on a GPU, and the copy for a checkpoint, which is in the host's memory there.
#pragma once

#include "rendezvous/plan/model.h"

namespace holdfast::rendezvous {

// Bytes.
double device_memory_needed(const PlanInputs& inputs);

}  // namespace holdfast::rendezvous
