#include "ops/cli/submit/trial.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <string>
#include <thread>

#include "ops/cli/jobs/text.h"
#include "ops/cli/jobs/watch.h"
#include "ops/cli/terminal/format.h"
#include "ops/cli/terminal/signal_watch.h"
#include "ops/cli/terminal/text_width.h"

namespace holdfast::ops {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr int64_t kSteps = 8;        // enough for a median
constexpr int64_t kStepsOfSlow = 3;  // where steps take so long that kSlow is over before kSteps are done
constexpr std::chrono::seconds kSlow{60};
constexpr std::chrono::seconds kBeginsWithin{120}, kEndsWithin{600}, kFreedWithin{60};
constexpr auto kLookAtTrial = milliseconds(200);
constexpr int64_t kLeastPriority = -1000;
constexpr size_t kNameBytes = 80;  // a longer name is left out of the trial's

// Fields that say how long, from where, how often and with what result: a trial has its own.
constexpr const char* kNotOfATrial[] = {
    "labels",          "valid_data_path", "eval_every",        "eval_microbatches",  "epochs",     "warmup_steps",
    "decay_steps",     "schedule_start",  "resume_from",       "init_from",          "after",      "retries",
    "retry_delay",     "max_nodes",       "global_batch_size", "keep_last",          "hash_every", "checkpoint_store",
    "checkpoint_copy", "sync_every",      "outer_momentum",    "outer_learning_rate"};

// The trial that runs, for the thread that sees Ctrl-C. `submitting` is held while it is not known yet.
struct RunningTrial {
  std::mutex submitting;
  std::string id;
};

// False: it may still run. It ends by itself when it has run for its max_runtime.
bool stop(Api& api, const std::string& id) {
  try {
    api.post(fmt::format("/v1/jobs/{}/stop", id), {{"checkpoint", false}});
    return true;
  } catch (const Failure& failure) {
    return failure.exit_code == kBadInput && !failure.busy;  // refused: it has ended already
  }
}

std::string may_still_run(const std::string& id) {
  return fmt::format("the trial {0} may still run: holdfast stop {0}", id);
}

bool has_enough_steps(int64_t steps, steady_clock::duration since_first) {
  return steps >= kSteps || (steps >= kStepsOfSlow && since_first >= kSlow);
}

[[noreturn]] void give_up(Api& api, const Json& job, const char* what, std::chrono::seconds within) {
  const std::string id = text_at(job, "id");
  stop(api, id);
  throw Failure{kJobFailed,
                fmt::format("the trial {} {} within {} ({}: {}): submit without --auto, or give --microbatch_s and --link_mb_s",
                            id, what, duration_text(static_cast<double>(within.count())), text_at(job, "state"),
                            printable(text_at(job, "reason")))};
}

// The reason is told when it changes, so that nobody waits without knowing for what.
void tell(const Json& job, std::string& told) {
  const std::string reason = text_at(job, "state") == "running" ? "" : printable(text_at(job, "reason"));
  if (!reason.empty() && reason != told)
    fmt::print(stderr, "  {} is {}: {}\n", text_at(job, "id"), text_at(job, "state"), reason);
  told = reason;
}

void wait_for_steps(Api& api, const std::string& id) {
  const auto begin = steady_clock::now();
  auto first_step = steady_clock::time_point::max();
  std::string told;
  for (;; std::this_thread::sleep_for(kLookAtTrial)) {
    const Json job = patiently([&] { return api.get("/v1/jobs/" + id); });
    const int64_t steps = integer_at(job, "step");
    const auto now = steady_clock::now();
    if (steps > 0) first_step = std::min(first_step, now);
    if (has_enough_steps(steps, steps > 0 ? now - first_step : steady_clock::duration(0))) return;
    if (is_final(text_at(job, "state"))) {
      throw Failure{kJobFailed,
                    fmt::format("the trial {} is {}: {}", id, text_at(job, "state"), printable(text_at(job, "reason")))};
    }
    tell(job, told);
    if (steps == 0 && now >= begin + kBeginsWithin) give_up(api, job, "did no step", kBeginsWithin);
    if (now >= begin + kEndsWithin) give_up(api, job, "did too few steps", kEndsWithin);
  }
}

// The job that comes next finds the workers free.
void wait_for_end(Api& api, const std::string& id) {
  const auto deadline = steady_clock::now() + kFreedWithin;
  while (!is_final(text_at(patiently([&] { return api.get("/v1/jobs/" + id); }), "state"))) {
    if (steady_clock::now() >= deadline) return;
    std::this_thread::sleep_for(kLookAtTrial);
  }
}

}  // namespace

Json trial_spec(const Json& spec) {
  Json trial = spec;
  for (const char* field : kNotOfATrial) trial.erase(field);
  const std::string name = text_at(spec, "name");
  trial["name"] = name.empty() || name.size() > kNameBytes ? "trial" : "trial-of-" + name;
  trial["labels"] = {{"trial", "auto"}};
  trial["gradient_accumulation_steps"] = 1;
  trial["overlap"] = "off";
  trial["min_nodes"] = kTrialWorkers;
  trial["priority"] = kLeastPriority;  // it drives nobody out
  trial["checkpoint_every"] = 0;
  trial["total_steps"] = 100'000;  // it is stopped long before
  trial["max_runtime"] = kEndsWithin.count();
  return trial;
}

int64_t workers_for(Api& api, const Json& trial) {
  return integer_at(api.post(path_with("/v1/jobs", {{"dry_run", "1"}}), trial), "free_workers");
}

void run_trial(const Options& options, Api& api, const Json& trial) {
  RunningTrial running;
  const SignalWatch signals(
      [&](int signal) {
        const std::lock_guard known(running.submitting);
        if (running.id.empty()) return exit_code_of_signal(signal);
        Api own(options);
        fmt::print(stderr, "\n{}; nothing was submitted\n",
                   stop(own, running.id) ? running.id + ", the trial, is stopped" : may_still_run(running.id));
        return exit_code_of_signal(signal);
      },
      [] {});
  {
    const std::lock_guard submitting(running.submitting);
    running.id = text_at(api.post_once("/v1/jobs", trial), "id");
  }
  fmt::print(stderr, "trial {}: a few steps, to learn how fast the workers and their link are\n", running.id);
  try {
    wait_for_steps(api, running.id);
  } catch (const Failure& failure) {
    if (stop(api, running.id)) throw;
    throw Failure{failure.exit_code, fmt::format("{}; {}", failure.message, may_still_run(running.id))};
  }
  if (!stop(api, running.id)) fmt::print(stderr, "{}\n", may_still_run(running.id));
  wait_for_end(api, running.id);
}

}  // namespace holdfast::ops
