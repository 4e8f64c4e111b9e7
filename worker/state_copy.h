// All ranks of a new generation come to the same state before its first step.
//
// Every rank tells (step, hash) of what it holds, and its unconfirmed steps; the donor is the lowest rank whose state is
// at the wanted step. If anybody's state differs from the donor's, it is passed along the ring piece by piece, and who
// took it checks the whole against the donor's hash. Ranks that hold the right state read along and keep their own bytes.
// Promises: on success every rank holds a state with the donor's hash, and the same list of unconfirmed steps. On failure
// a rank that was being written to holds no state; the others hold what they held.
#pragma once

#include <cstdint>
#include <string>

#include "worker/run_stop.h"
#include "worker/session.h"
#include "worker/step_history.h"

namespace holdfast::worker {

struct StateCopy {
  int64_t step = 0;
  std::string hash;
  int donor = 0;
  int receivers = 0;  // ranks that took a copy
  int64_t bytes = 0;  // of the state, 0 when nobody needed it
  double seconds = 0;
  bool received = false;  // this rank took it
};

RunResult<StateCopy> agree_on_state(Communicator& ring, Session& session, const rendezvous::StateSource& source,
                                    int64_t wanted_step, StepHistory& history);

}  // namespace holdfast::worker
