// The pieces of a divided state that rank 0 takes for a checkpoint. Thread: the one that calls collectives, which is the ops'
// own.
#pragma once

#include <memory>

#include "worker/session/run_stop.h"
#include "worker/session/session.h"

namespace holdfast::worker {

// Rank 0's copy of all that it does not have whole, for a checkpoint: moments, and parameters where they are apart from compute
// copies (else null). Empty on other ranks, which take part.
struct Collected {
  std::shared_ptr<float[]> parameters, exp_avg, exp_avg_sq;  // host memory, in the table's order
};
RunResult<Collected> collect_state(Communicator& ring, Session& session);

}  // namespace holdfast::worker
