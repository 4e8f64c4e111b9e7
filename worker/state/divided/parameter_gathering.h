// Compute copies of a layer when a pass needs them, where no rank keeps them all (`shard parameters`; ZeRO-3, Rajbhandari et
// al. 2020, section 5.3): owners make theirs from their parameters, and they go round the ring as they are.
//
// So all ranks go through the layers alike, pass by pass: one without a microbatch asks for what a pass would
// (Gpt2::need_forward). With a queue a layer is on its way while the one before it is computed.
// Promises: while it lives the session's model has what its passes ask for, or RingFailed leaves the pass. Thread: the ops'
// own, which calls collectives where there is no queue.
#pragma once

#include <chrono>
#include <map>
#include <vector>

#include "worker/collectives/communicator.h"
#include "worker/collectives/queue/collective_queue.h"
#include "worker/session/session.h"
#include "worker/state/divided/routes.h"

namespace holdfast::worker {

class ParameterGathering {
 public:
  // Of one generation, whose ranks have agreed on the state. Does nothing where copies stay.
  ParameterGathering(Communicator& ring, Session& session);
  ~ParameterGathering();
  ParameterGathering(const ParameterGathering&) = delete;
  ParameterGathering& operator=(const ParameterGathering&) = delete;

  // From now on collectives go through `queue`, which has the ring; null: through the ring. Layers on their way are forgotten.
  // Only where the memory is the host's: the queue's thread may not use the ops.
  void go_through(CollectiveQueue* queue);

  // The time that it spent in the ring, or waiting for the queue, since the last call.
  std::chrono::duration<double> take_time();

 private:
  void begin(int64_t layer);
  void finish(int64_t layer);
  CollectiveResult<void> carry(const std::vector<RoutedPiece>& pieces, int64_t step);

  Communicator& ring_;
  Session& session_;
  CollectiveQueue* queue_ = nullptr;
  std::map<int64_t, size_t> under_way_;  // layers: their numbers in the queue
  std::chrono::duration<double> in_ring_{0};
};

}  // namespace holdfast::worker
