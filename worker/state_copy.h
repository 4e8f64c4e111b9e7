// All ranks of a new generation come to the same state before its first step.
//
// Every rank tells (step, hash) of what it holds, and its unconfirmed steps. Who holds the wanted step holds the state; where
// two hold different ones, more than half decide. The others take it: as the gradient of the one step that they lack
// (step_catch_up.h), or as the pieces in which their memory differs (state_pieces.h). Who took it checks the whole by its hash.
// Promises: on success every rank holds a state with the same hash, and the same list of unconfirmed steps. On failure
// a rank that was being written to holds no state; the others hold what they held.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "worker/run_stop.h"
#include "worker/session.h"
#include "worker/step_history.h"

namespace holdfast::worker {

struct StateCopy {
  enum class How : uint8_t { kNothing, kGradient, kPieces };  // nothing: all held it

  int64_t step = 0;
  std::string hash;
  How how = How::kNothing;
  int donor = 0;         // the lowest rank that holds the state
  int donors = 0;        // ranks that do
  int receivers = 0;     // ranks that took it
  int overruled = 0;     // of these, the ones that held another state of the same step
  int64_t bytes = 0;     // that a receiver took at most, of the state or of the gradient
  bool refused = false;  // the step that was taken had no finite gradient: there was nothing to take but the word
  double seconds = 0;
  bool received = false;              // this rank took it
  std::vector<size_t> fetched_again;  // pieces that first arrived altered
};

// For people: "2 of 4 workers took the state of step 120 …"; nothing for kNothing.
std::string in_words(const StateCopy& copy, int world_size);

RunResult<StateCopy> agree_on_state(Communicator& ring, Session& session, const rendezvous::StateSource& source,
                                    int64_t wanted_step, StepHistory& history);

}  // namespace holdfast::worker
