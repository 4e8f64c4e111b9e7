// The small process above the training process: starts it, says why it died, and starts it again.
//
// Promises: the child dies with the supervisor; each life has an incarnation of its own; a life that ended badly is
// reported at once, with the last lines that it wrote, from a short-lived process of its own, so that neither the report holds
// up the restart nor a thread of an HTTP library lives in here. SIGTERM and SIGINT are passed on once as SIGTERM; the second
// kills. Thread: single-threaded, and must be: it forks.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "worker/restart_policy.h"

namespace holdfast::worker {

// Environment of the training process.
inline constexpr const char* kIncarnationVariable = "HOLDFAST_INTERNAL_INCARNATION";
inline constexpr const char* kSupervisorVariable = "HOLDFAST_INTERNAL_SUPERVISOR_PID";

struct SupervisorOptions {
  std::vector<std::string> command;  // program and arguments
  // Runs in a process of its own, bounded to `report_time`. `last_lines`: of its stderr.
  std::function<void(const std::string& incarnation, const std::string& reason, const std::vector<std::string>& last_lines)>
      report_lost;
  std::chrono::milliseconds report_time{5000};
  RestartLimits limits;
};

// Returns the program's exit status.
int supervise(const SupervisorOptions& options);

// 16 random bytes, hex.
std::string new_incarnation();
// "killed by signal 9 (SIGKILL)", "exited with status 1"; of waitpid's status.
std::string describe_end(int wait_status);

}  // namespace holdfast::worker
