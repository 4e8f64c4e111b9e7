// `holdfast wait`: for the end of a job or of several, or for an earlier moment, with an exit code for scripts.
#include <fmt/format.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <thread>

#include "ops/cli/command/command.h"
#include "ops/cli/jobs/watch.h"
#include "ops/cli/terminal/format.h"
#include "ops/cli/terminal/signal_watch.h"
#include "ops/cli/terminal/terminal.h"
#include "ops/cli/terminal/text_width.h"

namespace holdfast::ops {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr auto kBetweenLooks = milliseconds(400);

struct WaitArguments {
  std::vector<std::string> jobs;
  std::string goal = "ended";
  double timeout_s = 0;
};

void say(const char* line) {
  fmt::print(stderr, "{}\n", terminal_width(STDERR_FILENO) > 0 ? printable(line) : line);
  std::fflush(stderr);
}

// One job of the several that are waited for.
struct Waited {
  Waited(const Options& options, const std::string& id) : job(options, id) {}
  PatientJob job;
  Json shown;
  std::optional<ExitCode> outcome;
};

void ask(Waited& waited, const Goal& goal) {
  auto job = waited.job.get(say);
  if (!job) return;
  waited.shown = *std::move(job);
  waited.outcome = outcome_of(goal, waited.shown);
  if (waited.outcome) say(outcome_text(goal, waited.shown).c_str());
}

[[noreturn]] void give_up(const std::vector<std::unique_ptr<Waited>>& all, double timeout_s) {
  std::string still;
  for (const auto& waited : all) {
    if (!waited->outcome)
      still += fmt::format("{}{} is still {}", still.empty() ? "" : ", ", waited->job.id(), text_at(waited->shown, "state"));
  }
  throw Failure{kJobFailed, fmt::format("{} after {}", still, duration_text(timeout_s))};
}

WatchOutcome wait_for_several(const Options& options, const std::vector<std::string>& ids, const WatchOptions& watch) {
  const auto deadline = watch.timeout ? steady_clock::now() + *watch.timeout : steady_clock::time_point::max();
  const SignalWatch signals(
      [&](int signal) {
        say(fmt::format("The jobs go on without this program. To come back: {}",
                        command_again(options, fmt::format("wait {}", fmt::join(ids, " "))))
                .c_str());
        return exit_code_of_signal(signal);
      },
      [] {});
  std::vector<std::unique_ptr<Waited>> all;
  for (const std::string& id : ids) all.push_back(std::make_unique<Waited>(options, id));
  for (;;) {
    for (const auto& waited : all) {
      if (!waited->outcome) ask(*waited, watch.goal);
    }
    if (std::ranges::all_of(all, [](const auto& waited) { return waited->outcome.has_value(); })) break;
    if (steady_clock::now() >= deadline) give_up(all, static_cast<double>(watch.timeout->count()) / 1000);
    std::this_thread::sleep_until(std::min(deadline, steady_clock::now() + kBetweenLooks));
  }
  WatchOutcome outcome{kDone, {{"jobs", Json::array()}}};
  for (const auto& waited : all) {
    outcome.job["jobs"].push_back(waited->shown);
    outcome.exit_code = std::max<int>(outcome.exit_code, *waited->outcome);
  }
  return outcome;
}

void refuse_steps_that_never_come(Api& api, const std::vector<std::string>& ids, const Goal& goal) {
  if (goal.kind != Goal::Kind::kStep) return;
  for (const std::string& id : ids) {
    const int64_t total = integer_at(patiently([&] { return api.get("/v1/jobs/" + id); }), "total_steps");
    if (total > 0 && goal.step > total)
      throw Failure{kBadInput, fmt::format("--for step={}: {} has {} steps and never comes there", goal.step, id, total)};
  }
}

void wait(const Options& options, const WaitArguments& arguments) {
  WatchOptions watch;
  watch.goal = parse_goal(arguments.goal);
  if (arguments.timeout_s > 0) watch.timeout = milliseconds(static_cast<int64_t>(arguments.timeout_s * 1000));
  Api api(options);
  std::vector<std::string> ids;
  for (const std::string& job : arguments.jobs) {
    const std::string id = patiently([&] { return api.job_id(job); });
    if (std::ranges::find(ids, id) == ids.end()) ids.push_back(id);
  }
  refuse_steps_that_never_come(api, ids, watch.goal);
  const WatchOutcome outcome = ids.size() == 1 ? watch_job(options, ids.front(), watch) : wait_for_several(options, ids, watch);
  if (options.json) print_json(outcome.job);
  if (outcome.exit_code != kDone) throw Failure{outcome.exit_code, ""};
}

}  // namespace

void add_wait_command(CLI::App& app, Options& options) {
  const auto arguments = std::make_shared<WaitArguments>();
  CLI::App* command =
      add_command(app, options, "wait", "Wait for jobs to end; the exit code is 0 when all succeeded, 1 when one did not",
                  "holdfast wait j1 --timeout 3600\n  holdfast wait j1 --for step=100");
  command->add_option("jobs", arguments->jobs, "Job ids or names")->required()->type_name("JOB");
  command
      ->add_option("--for", arguments->goal,
                   "What to wait for: ended, running, or a step such as step=100; 1 when it cannot come any more")
      ->type_name("{ended,running,step=}")
      ->capture_default_str();
  command->add_option("--timeout", arguments->timeout_s, "Give up after this many seconds (exit code 1)")
      ->check(CLI::Range(0.001, 1e9))
      ->type_name("SECONDS");
  command->callback([&options, arguments] { wait(options, *arguments); });
}

}  // namespace holdfast::ops
