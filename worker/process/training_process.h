// The training process: the lifecycle machine with the train thread, the service's client and the signals around it.
//
// Promises: inputs reach the machine one at a time; its commands are carried out before the next; the newest status is
// published after each. `run` returns the exit code; answers that end the process end it at once.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "worker/link/exit_codes.h"
#include "worker/process/lifecycle.h"
#include "worker/process/options.h"
#include "worker/session/session.h"

namespace holdfast::worker {

struct Identity {
  std::string name, incarnation, node;
};

// Trains on the devices of `make_ops`. Blocks SIGTERM and SIGINT for all threads and takes them as the wish to leave; both
// may come more than once.
ExitCode run_training_process(const WorkerOptions& options, const Identity& identity, const kernels::OpsFactory& make_ops);

}  // namespace holdfast::worker
