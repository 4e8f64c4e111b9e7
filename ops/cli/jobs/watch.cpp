// The watcher polls the job and has the events streamed on a second thread, so that neither waits for the other.
#include "ops/cli/jobs/watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>

#include "ops/cli/jobs/event_feed.h"
#include "ops/cli/jobs/progress_screen.h"
#include "ops/cli/terminal/format.h"
#include "ops/cli/terminal/signal_watch.h"

namespace holdfast::ops {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr auto kLookAgain = milliseconds(400);
constexpr auto kWatchPatience = std::chrono::minutes(5);  // for a service that went away

std::string goes_on_text(const Options& options, const std::string& id) {
  return fmt::format("{} goes on without this program. To come back: {}; to end the job: {}", id,
                     command_again(options, fmt::format("show {} --watch", id)),
                     command_again(options, fmt::format("stop {}", id)));
}

[[noreturn]] void give_up(const std::string& id, const Json& job, const WatchOptions& watch) {
  const double waited_s = static_cast<double>(watch.timeout->count()) / 1000;
  throw Failure{kJobFailed, fmt::format("{} is still {} after {}", id, text_at(job, "state"), duration_text(waited_s))};
}

}  // namespace

Goal parse_goal(const std::string& text) {
  if (text == "ended") return {};
  if (text == "running") return {Goal::Kind::kRunning};
  Goal goal{Goal::Kind::kStep};
  const char* const begin = text.data() + std::min<size_t>(5, text.size());
  const auto [end, error] = std::from_chars(begin, text.data() + text.size(), goal.step);
  if (text.starts_with("step=") && error == std::errc() && end == text.data() + text.size() && goal.step >= 1) return goal;
  throw Failure{kBadInput, fmt::format("--for {}: expected ended, running, or a step such as step=100", text)};
}

std::optional<ExitCode> outcome_of(const Goal& goal, const Json& job) {
  const std::string state = text_at(job, "state");
  const bool succeeded = state == "succeeded";
  switch (goal.kind) {
    case Goal::Kind::kRunning:
      if (state == "running" || succeeded) return kDone;
      break;
    case Goal::Kind::kStep:
      if (integer_at(job, "step") >= goal.step) return kDone;
      if (succeeded) return kJobFailed;
      break;
    case Goal::Kind::kEnded:
      if (succeeded) return kDone;
      break;
  }
  return is_final(state) ? std::optional(kJobFailed) : std::nullopt;
}

std::string outcome_text(const Goal& goal, const Json& job) {
  if (is_final(text_at(job, "state"))) {
    const bool too_early = goal.kind == Goal::Kind::kStep && integer_at(job, "step") < goal.step;
    return final_line(job) + (too_early ? fmt::format(" (step {} was waited for)", goal.step) : "");
  }
  if (serves(job)) return fmt::format("{} is {}", text_at(job, "id"), text_at(job, "state"));
  return fmt::format("{} is {} at step {}", text_at(job, "id"), text_at(job, "state"), steps_text(job));
}

PatientJob::PatientJob(const Options& options, std::string id) : api_(options), id_(std::move(id)) {}

std::optional<Json> PatientJob::get(const std::function<void(const char*)>& on_away) {
  try {
    Json job = api_.get("/v1/jobs/" + id_);
    seen_ = steady_clock::now();
    away_ = false;
    return job;
  } catch (const Failure& failure) {
    const bool waited_for = seen_ && failure.exit_code == kUnreachable && steady_clock::now() - *seen_ <= kWatchPatience;
    if (!failure.busy && !waited_for) throw;
    if (!away_) {
      on_away(failure.busy ? "The service has too much to do. Asking again."
                           : "The service is away; the workers go on without it. Waiting for it to come back.");
    }
    away_ = true;
    return std::nullopt;
  }
}

int exit_code_of_signal(int signal) {
  return 128 + signal;
}

std::string command_again(const Options& options, const std::string& command) {
  return fmt::format("holdfast {}{}", command, options.server.empty() ? "" : " --server " + options.server);
}

WatchOutcome watch_job(const Options& options, const std::string& id, const WatchOptions& watch) {
  const auto deadline = watch.timeout ? steady_clock::now() + *watch.timeout : steady_clock::time_point::max();
  ProgressScreen screen(watch.on_stdout ? stdout : stderr);
  const auto on_away = [&](const char* line) { screen.event(line); };
  PatientJob patient(options, id);
  std::optional<Json> job = patient.get(on_away);  // a service that is not there, or no such job, ends it here
  const SignalWatch signals(
      [&](int signal) {
        const std::string beside = watch.on_leave ? watch.on_leave() : "";
        screen.leave(goes_on_text(options, id) + (beside.empty() ? "" : ". " + beside));
        return exit_code_of_signal(signal);
      },
      [&] { screen.resized(); });
  EventFeed feed(options, id, watch.from_the_beginning);
  WatchOutcome outcome;
  for (;; job = patient.get(on_away)) {
    for (const Json& event : feed.take()) screen.event(event_line(event));
    if (watch.notes) {
      for (const std::string& note : watch.notes()) screen.event(note);
    }
    if (job) {
      outcome.job = *job;
      if (const auto reached = outcome_of(watch.goal, *job)) {
        outcome.exit_code = *reached;
        break;
      }
      screen.progress(*job);
    }
    if (steady_clock::now() >= deadline) {
      screen.leave(progress_line(outcome.job));
      give_up(id, outcome.job, watch);
    }
    feed.wait_until(std::min(deadline, steady_clock::now() + kLookAgain));
  }
  for (const Json& event : feed.take_rest()) screen.event(event_line(event));
  screen.leave(outcome_text(watch.goal, outcome.job));
  return outcome;
}

}  // namespace holdfast::ops
