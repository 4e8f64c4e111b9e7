// The checkpoints that are due between two steps of the training loop: of a divided state all ranks write a part each, so they
// tell each other first who can.
//
// Thread: the train thread.
#pragma once

#include <string>

#include "worker/session/run_stop.h"
#include "worker/step/train_loop.h"

namespace holdfast::worker {

// The last comparison of the ranks' states.
struct Compared {
  int64_t step = -1;
  std::string hash;
  double seconds = 0;  // for how long training stood still for it
};

// Begins the checkpoint of the state's step, which goes on beside training; where it cannot, says so and leaves it out.
RunResult<void> start_checkpoint(TrainLoop& loop, const Compared& compared);

struct LastWrite {
  bool begins = true;    // false: all ranks leave, and have waited for each other long enough
  bool is_alone = true;  // no rank stays that waits for this one's part
};

// Before `write_now`, which may be with all ranks or with rank 0 alone. Nobody asks again after it, so a rank is not ready
// before it knows that its store is that of rank 0.
RunResult<LastWrite> wait_until_all_can_write(TrainLoop& loop);
// Returns the state's hash when what this rank writes of it is durable and, on rank 0, registered. At a job's end a part that
// can never be written ends the generation, for rank 0 would wait for it. `is_alone`: LastWrite; a rank for whose part others
// wait tries for as long as older parts are waited for.
RunResult<std::string> write_now(TrainLoop& loop, const std::string& hash, bool is_alone);

}  // namespace holdfast::worker
