// The mean loss over the validation file's first microbatches, dealt to the ranks like a training step's.
//
// Promises: the same number at any world size (losses are summed as integers); the state does not change.
#pragma once

#include "worker/session/run_stop.h"
#include "worker/session/session.h"

namespace holdfast::worker {

bool evaluation_due(const Session& session);
RunResult<double> evaluate(Session& session, Communicator& ring);

}  // namespace holdfast::worker
