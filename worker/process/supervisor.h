// The small process above the training process: starts it, says why it died, and starts it again.
//
// Promises: the child dies with the supervisor; each life has an incarnation of its own. A life that ended badly is reported
// at once, with its last lines of stderr, by a short-lived process: so no thread of an HTTP library lives in the supervisor.
// The next life begins when the report has arrived, so that it does not overtake it and take the reason's place; but a service
// that does not answer holds it up for `report_first` at most. The first SIGTERM or SIGINT is passed on as SIGTERM; the second
// kills.
// Thread: single-threaded, and must be: it forks.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "worker/process/restart_policy.h"

namespace holdfast::worker {

// Environment of the training process.
inline constexpr const char* kIncarnationVariable = "HOLDFAST_INTERNAL_INCARNATION";
inline constexpr const char* kSupervisorVariable = "HOLDFAST_INTERNAL_SUPERVISOR_PID";

struct SupervisorOptions {
  std::vector<std::string> command;  // program and arguments
  // Runs in a process of its own, for at most `report_time`. `last_lines` are from the life's stderr.
  std::function<void(const std::string& incarnation, const std::string& reason, const std::vector<std::string>& last_lines)>
      report_lost;
  std::chrono::milliseconds report_time{5000}, report_first{1000};
  RestartLimits limits;
};

// Returns the program's exit status.
int supervise(const SupervisorOptions& options);

// 16 random bytes, hex.
std::string new_incarnation();
// "killed by signal 9 (SIGKILL)", "exited with status 1"; of waitpid's status.
std::string describe_end(int wait_status);

}  // namespace holdfast::worker
