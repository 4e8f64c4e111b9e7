// The training loop of one generation: steps until the job is done, the ranks agree to stop, or something breaks.
//
// Promises: at every return the state is that after some whole step, the same on every rank or one step further; a rank
// that holds a step's complete gradient applies it. Throws nothing that the caller must know of.
// Thread: the train thread.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "worker/checkpointing.h"
#include "worker/interrupt.h"
#include "worker/outbox.h"
#include "worker/progress_reporter.h"
#include "worker/run_stop.h"
#include "worker/session.h"
#include "worker/tensorboard.h"

namespace holdfast::worker {

// What the loop is asked from outside while it runs.
struct RunRequests {
  std::atomic<bool> yield{false}, checkpoint{false}, leaving{false};
};

struct TrainLoop {
  Session& session;
  Communicator& ring;
  RunRequests& requests;
  Interrupt& interrupt;
  ProgressReporter& reporter;
  Checkpointing& checkpoints;
  Outbox& outbox;
  std::function<void(int64_t step)> on_commit;
  // A neighbour went away, or the ring failed, while this rank computed; from a thread of its own. The service decides what
  // follows.
  std::function<void(const CollectiveError&)> on_loss;
  // A neighbour from whom nothing has come for a while; on the thread that waits for it, and waits on.
  std::function<void(const CollectiveError&)> on_quiet = {};
  std::vector<std::string> workers = {};  // by rank, for messages
  TensorBoard* tensorboard = nullptr;     // of rank 0, where it is asked for

  RunStop run();
};

}  // namespace holdfast::worker
