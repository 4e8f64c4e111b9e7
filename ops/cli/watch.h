// A job's progress and its events as they come, until the job ends. What `submit --watch` and `wait` show, on stderr.
#pragma once

#include <chrono>
#include <optional>

#include "ops/cli/api.h"

namespace holdfast::ops {

struct WatchOptions {
  bool from_the_beginning = false;                        // tell the events that were, too
  std::optional<std::chrono::milliseconds> timeout = {};  // none: as long as it takes
};
struct WatchOutcome {
  int exit_code = kDone;
  Json job;  // as last seen
};

// `id` is a job id. A service that goes away is waited for; one that was never there is a Failure.
WatchOutcome watch_job(const Options& options, const std::string& id, const WatchOptions& watch);

// "step 120/2000 (6%)  loss 3.4123  10,240 tokens/s  ETA 2m 14s  2 workers  checkpoint 100 (14s ago)"
std::string progress_line(const Json& job);
// "16:55:03  worker_lost  w2 was killed by signal 9"
std::string event_line(const Json& event);
bool is_final(const std::string& state);

}  // namespace holdfast::ops
