// The watcher polls the job and has the events streamed on a second thread, so that neither waits for the other.
//
// On a terminal the progress line is redrawn in place and events scroll above it; elsewhere a line is printed when there
// is something new, but not more often than a reader of a log wants.
#include "ops/cli/watch.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "ops/cli/event_feed.h"
#include "ops/cli/format.h"

namespace holdfast::ops {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr auto kPoll = milliseconds(400);
constexpr auto kLogLineEvery = milliseconds(2000);
constexpr auto kPatience = std::chrono::minutes(5);  // for a service that went away

// What is on stderr now.
class Screen {
 public:
  void event(const std::string& line) {
    clear();
    fmt::print(stderr, "{}\n", line);
    draw();
  }
  void progress(const std::string& line, bool at_once) {
    if (line == shown_) return;
    if (!terminal_ && !at_once && steady_clock::now() - last_ < kLogLineEvery) return;
    last_ = steady_clock::now();
    clear();
    shown_ = line;
    if (terminal_) {
      draw();
    } else {
      fmt::print(stderr, "{}\n", line);
    }
  }
  void leave() {
    if (terminal_ && !shown_.empty()) fmt::print(stderr, "\n");
    shown_.clear();
  }

 private:
  void clear() const {
    if (terminal_ && !shown_.empty()) fmt::print(stderr, "\r\033[K");
  }
  void draw() const {
    if (!terminal_ || shown_.empty()) return;
    fmt::print(stderr, "{}", cut_to(shown_, terminal_width(STDERR_FILENO) - 1));
    std::fflush(stderr);
  }
  const bool terminal_ = isatty(STDERR_FILENO) != 0;
  std::string shown_;
  steady_clock::time_point last_;
};

int exit_code_of(const std::string& state) {
  return state == "succeeded" ? kDone : kJobFailed;
}

// The job, or nothing while the service is away.
class PatientJob {
 public:
  PatientJob(const Options& options, const std::string& id) : api_(options), path_("/v1/jobs/" + id) {}

  std::optional<Json> get(Screen& screen) {
    try {
      Json job = api_.get(path_);
      seen_ = steady_clock::now();
      away_ = false;
      return job;
    } catch (const Failure& failure) {
      if (!seen_ || failure.exit_code != kUnreachable || steady_clock::now() - *seen_ > kPatience) throw;
      if (!away_) screen.event("The service is away; the workers go on without it. Waiting for it to come back.");
      away_ = true;
      return std::nullopt;
    }
  }

 private:
  Api api_;
  std::string path_;
  std::optional<steady_clock::time_point> seen_;
  bool away_ = false;
};

std::string final_line(const Json& job) {
  const std::string state = text_at(job, "state"), reason = text_at(job, "reason");
  return fmt::format("{} {} after step {}/{}{}", text_at(job, "id"), state, integer_at(job, "step"),
                     integer_at(job, "total_steps"), reason.empty() || state == "succeeded" ? "" : ": " + reason);
}

}  // namespace

bool is_final(const std::string& state) {
  return state == "succeeded" || state == "failed" || state == "cancelled";
}

std::string progress_line(const Json& job) {
  const std::string state = text_at(job, "state");
  const int64_t step = integer_at(job, "step"), total = integer_at(job, "total_steps");
  std::string line = fmt::format("step {}/{}", step, total);
  if (total > 0) line += fmt::format(" ({}%)", 100 * step / total);
  if (state != "running") {
    line = fmt::format("{}  {}", state, line);
    if (!text_at(job, "reason").empty()) line += ": " + text_at(job, "reason");
    return line;
  }
  line += "  loss " + loss_text(number_at(job, "loss"));
  line += "  " + rate_text(number_at(job, "tokens_per_second"));
  line += "  ETA " + duration_text(number_at(job, "eta_s"));
  const int64_t workers = integer_at(job, "world_size");
  line += fmt::format("  {} worker{}", workers, workers == 1 ? "" : "s");
  if (has(job, "latest_checkpoint")) {
    const Json& checkpoint = job["latest_checkpoint"];
    line +=
        fmt::format("  checkpoint {} ({} ago)", integer_at(checkpoint, "step"), duration_text(number_at(checkpoint, "age_s")));
  }
  return line;
}

std::string event_line(const Json& event) {
  const std::string time = text_at(event, "time");
  return fmt::format("{}  {:<21} {}", time.size() >= 19 ? time.substr(11, 8) : time, text_at(event, "kind"),
                     text_at(event, "message"));
}

WatchOutcome watch_job(const Options& options, const std::string& id, const WatchOptions& watch) {
  const auto deadline = watch.timeout ? steady_clock::now() + *watch.timeout : steady_clock::time_point::max();
  Screen screen;
  PatientJob patient(options, id);
  std::optional<Json> job = patient.get(screen);  // a service that is not there, or no such job, ends it here
  EventFeed feed(options, id, watch.from_the_beginning);
  WatchOutcome outcome;
  for (;; job = patient.get(screen)) {
    for (const Json& event : feed.take()) screen.event(event_line(event));
    if (job) {
      outcome.job = *job;
      const std::string state = text_at(*job, "state");
      if (is_final(state)) break;
      screen.progress(progress_line(*job), false);
    }
    if (steady_clock::now() >= deadline) {
      screen.leave();
      throw Failure{kJobFailed, fmt::format("{} is still {} after {}", id, text_at(outcome.job, "state"),
                                            duration_text(static_cast<double>(watch.timeout->count()) / 1000))};
    }
    feed.wait_until(std::min(deadline, steady_clock::now() + kPoll));
  }
  for (const Json& event : feed.take_rest()) screen.event(event_line(event));
  screen.progress(final_line(outcome.job), true);
  screen.leave();
  outcome.exit_code = exit_code_of(text_at(outcome.job, "state"));
  return outcome;
}

namespace {

struct WaitArguments {
  std::string job;
  double timeout_s = 0;
};

}  // namespace

void add_wait_command(CLI::App& app, Options& options) {
  const auto arguments = std::make_shared<WaitArguments>();
  CLI::App* command = add_command(app, options, "wait", "Wait for a job to end; the exit code is 0 when it succeeded, else 1",
                                  "holdfast wait j1 --timeout 3600");
  command->add_option("job", arguments->job, "Job id or name")->required();
  command->add_option("--timeout", arguments->timeout_s, "Give up after this many seconds (exit code 1)")
      ->check(CLI::Range(0.001, 1e9))
      ->type_name("SECONDS");
  command->callback([&options, arguments] {
    WatchOptions watch;
    if (arguments->timeout_s > 0) watch.timeout = milliseconds(static_cast<int64_t>(arguments->timeout_s * 1000));
    const WatchOutcome outcome = watch_job(options, Api(options).job_id(arguments->job), watch);
    if (options.json) print_json(outcome.job);
    if (outcome.exit_code != kDone) throw Failure{outcome.exit_code, ""};
  });
}

}  // namespace holdfast::ops
