// All ranks of a new generation come to the same state before its first step.
//
// Every rank tells the step and the hash of its state, and its unconfirmed steps. The ranks that have the wanted step hold
// the state; where their states differ, the state of more than half of them counts. The other ranks take it: as the gradient
// of the one step that they lack (catch_up.h), or as the pieces in which their memory differs (pieces.h). A rank that took
// the state checks the whole by its hash.
// Promises: on success every rank holds a state with the same hash, and the same list of unconfirmed steps. On failure a rank
// that was being written to holds no state; the others hold what they held.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "worker/link/step_history.h"
#include "worker/session/run_stop.h"
#include "worker/session/session.h"

namespace holdfast::worker {

struct StateAgreement {
  enum class How : uint8_t { kNothing, kGradient, kPieces };  // kNothing: all ranks held it

  int64_t step = 0;
  std::string hash;
  How how = How::kNothing;
  int donor = 0;         // the lowest rank that holds the state
  int donors = 0;        // ranks that hold the state
  int receivers = 0;     // ranks that took it
  int overruled = 0;     // receivers that held another state of the same step
  int64_t bytes = 0;     // the most that one receiver took, of the state or of the gradient
  bool divided = false;  // of a divided state (divided/agreement.h): receivers took parts of it
  int64_t later = 0;     // newcomers that take compute copies after steps, and compute nothing until then
  bool refused = false;  // the missing step had been refused: only that word was taken
  double seconds = 0;
  bool received = false;              // this rank took it
  std::vector<size_t> fetched_again;  // pieces that first arrived altered
};

// For people: "2 of 4 workers took the state of step 120 …"; nothing for kNothing.
std::string in_words(const StateAgreement& agreed, int world_size);

RunResult<StateAgreement> agree_on_state(Communicator& ring, Session& session, int64_t wanted_step, StepHistory& history);

}  // namespace holdfast::worker
