// A job's progress and its events as they come, until the moment that is waited for.
#pragma once

#include <chrono>
#include <functional>
#include <optional>

#include "ops/cli/command/api.h"
#include "ops/cli/jobs/text.h"

namespace holdfast::ops {

// The moment that is waited for: the job's end, its training, or a number of steps.
struct Goal {
  enum class Kind : uint8_t { kEnded, kRunning, kStep } kind = Kind::kEnded;
  int64_t step = 0;
};
// "ended", "running" or "step=100"; anything else is a Failure that names it.
Goal parse_goal(const std::string& text);
// kDone when the moment has come, kJobFailed when the job has ended without it, nothing while it may still come.
std::optional<ExitCode> outcome_of(const Goal& goal, const Json& job);
// "j1 succeeded after step 60/60", "j1 is at step 40/60": the job when its outcome is known.
std::string outcome_text(const Goal& goal, const Json& job);

struct WatchOptions {
  bool from_the_beginning = false;                        // tell the events that were, too
  bool on_stdout = false;                                 // the progress is what was asked for, not a companion on stderr
  std::optional<std::chrono::milliseconds> timeout = {};  // none: as long as it takes
  Goal goal = {};
  // Lines to show of what happens beside the job, asked for several times a second. May throw a Failure, which ends the
  // watching.
  std::function<std::vector<std::string>()> notes = {};
  // When Ctrl-C ends the program, on another thread: what else goes on without it, in a sentence; "": nothing.
  std::function<std::string()> on_leave = {};
};
struct WatchOutcome {
  int exit_code = kDone;
  Json job;  // as last seen
};

// `id` is a job id. A service that goes away is waited for; one that was never there is a Failure. Ctrl-C ends the program,
// not the job, and says so.
WatchOutcome watch_job(const Options& options, const std::string& id, const WatchOptions& watch);

// Asks for the job again and again; nothing while the service is away.
class PatientJob {
 public:
  PatientJob(const Options& options, std::string id);
  // Throws a Failure when the service was never there, or is away for longer than kWatchPatience. `on_away` is called once each
  // time that it goes away.
  std::optional<Json> get(const std::function<void(const char* line)>& on_away);
  const std::string& id() const { return id_; }

 private:
  Api api_;
  const std::string id_;
  std::optional<std::chrono::steady_clock::time_point> seen_;
  bool away_ = false;
};

// After Ctrl-C: the exit code, as shells have it.
int exit_code_of_signal(int signal);
// "holdfast show j1 --watch", with --server where it was given.
std::string command_again(const Options& options, const std::string& command);

}  // namespace holdfast::ops
