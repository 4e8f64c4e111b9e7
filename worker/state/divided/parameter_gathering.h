// Compute copies of a layer when a pass needs them, where no rank keeps them all (`shard parameters`; ZeRO-3, Rajbhandari et
// al. 2020, section 5.3): owners make theirs from their parameters, and they go round the ring as they are.
//
// So all ranks go through the layers alike, pass by pass: one without a microbatch asks for what a pass would (Gpt2::need).
// Promises: while it lives the session's model has what its passes ask for, or RingFailed leaves the pass. Thread: the one that
// calls collectives, which is the ops' own.
#pragma once

#include <chrono>

#include "worker/collectives/communicator.h"
#include "worker/session/session.h"

namespace holdfast::worker {

class ParameterGathering {
 public:
  // Of one generation, whose ranks have agreed on the state. Does nothing where copies stay.
  ParameterGathering(Communicator& ring, Session& session);
  ~ParameterGathering();
  ParameterGathering(const ParameterGathering&) = delete;
  ParameterGathering& operator=(const ParameterGathering&) = delete;

  // The time that it spent in the ring since the last call.
  std::chrono::duration<double> take_time();

 private:
  void bring(int64_t layer);

  Communicator& ring_;
  Session& session_;
  std::chrono::duration<double> in_ring_{0};
};

}  // namespace holdfast::worker
