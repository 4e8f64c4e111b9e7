// The training loop of one generation: steps until the job is done, the ranks agree to stop, or something breaks.
//
// Promises: at every return the state is that after some whole step, the same on every rank or one step further; a rank that
// holds a step's complete gradient applies it. Throws no exception that the caller must handle.
// Thread: the train thread.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "worker/checkpoints/checkpointing.h"
#include "worker/link/interrupt.h"
#include "worker/link/outbox.h"
#include "worker/link/progress_reporter.h"
#include "worker/profile/profiler.h"
#include "worker/session/run_stop.h"
#include "worker/session/session.h"
#include "worker/state/divided/filling.h"
#include "worker/state/divided/parameter_gathering.h"
#include "worker/tensorboard/event_writer.h"

namespace holdfast::worker {

// Requests from outside while the loop runs.
struct RunRequests {
  std::atomic<bool> yield{false}, checkpoint{false}, leaving{false}, released{false};
};

struct TrainLoop {
  Session& session;
  Communicator& ring;
  RunRequests& requests;
  Interrupt& interrupt;
  ProgressReporter& reporter;
  Checkpointing& checkpoints;
  Outbox& outbox;
  Profiler& profiler;
  std::function<void(int64_t step)> on_commit;
  // Called when a neighbour's connection ended, or the ring failed, while this rank computed; on a separate thread. The
  // service decides what follows.
  std::function<void(const CollectiveError&)> on_lost_peer;
  // Called when a neighbour has sent nothing for a while; on the thread that waits for it, and goes on waiting.
  std::function<void(const CollectiveError&)> on_quiet = {};
  std::vector<std::string> workers = {};  // by rank, for messages
  std::string node = "";                  // the machine that this rank is on (Transport::node)
  TensorBoard* tensorboard = nullptr;     // only on rank 0, and where it is asked for
  FillingWindows filling = {};
  // Ranks of a divided state that all leave do not wait longer than this until each can write its part of the last checkpoint:
  // with all that follows it is less than a service manager gives them (TimeoutStopSec).
  std::chrono::milliseconds older_parts_patience = std::chrono::seconds(150);
  ParameterGathering* gathering = nullptr;  // while it runs

  // A worker that leaves does not wait longer than this for a service that is away.
  static constexpr std::chrono::seconds kLeaverPatience{20};

  RunStop run();
  // Work that is not a step may take longer than a step, and differently long on each rank.
  void be_patient();
};

}  // namespace holdfast::worker
