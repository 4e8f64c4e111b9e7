#include "ops/cli/chaos/drill.h"

#include <fmt/format.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <set>
#include <thread>

#include "ops/cli/jobs/text.h"
#include "rendezvous/text/time_text.h"

namespace holdfast::ops {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kLook{50};
constexpr milliseconds kAskEvery{500};
constexpr std::chrono::seconds kPatience{20};     // for a service that a drill killed, when a fault needs to know who is there
constexpr std::chrono::minutes kLongPatience{5};  // and when the report does

std::atomic<bool> interrupted = false;

void note_interrupt(int) {
  interrupted = true;
}

double now_s() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// "2026-11-20T16:55:03.120Z" -> seconds since 1970.
double seconds_of(const std::string& time) {
  return static_cast<double>(rendezvous::parse_time(time).value_or(0)) / 1000;
}

// The request is repeated while the service is away, as long as the patience lasts.
template <typename Ask>
auto ask_while_away(const Ask& ask, steady_clock::duration patience) -> decltype(ask()) {
  const auto until = steady_clock::now() + patience;
  while (true) {
    try {
      return ask();
    } catch (const Failure& failure) {
      if (failure.exit_code != kUnreachable || steady_clock::now() > until) throw;
      std::this_thread::sleep_for(kLook);
    }
  }
}

bool trains(const Json& worker, const std::string& job) {
  return text_at(worker, "job") == job && text_at(worker, "state") == "alive";
}

// Whether the worker holds the job's state: a worker that is still preparing could not go on alone.
bool is_healthy(const Json& worker) {
  return integer_at(worker, "step", -1) >= 0;
}

std::string where_else(const PlannedFault& fault, const Json& workers, const std::string& job) {
  for (const Json& worker : workers) {
    if (text_at(worker, "id") != fault.worker) continue;
    if (!trains(worker, job)) return fmt::format("{} is not part of {} now", fault.worker, job);
    return fmt::format("{} is on {}: run chaos there, too", fault.worker, text_at(worker, "node"));
  }
  return fmt::format("there is no worker {}", fault.worker);
}

tl::unexpected<std::string> no_candidate(const PlannedFault& fault, const Json& workers, const DrillSettings& settings,
                                         const Faults& faults) {
  const bool known = std::ranges::any_of(workers, [&](const Json& worker) {
    return trains(worker, settings.job) && text_at(worker, "node") == this_node() &&
           (fault.worker.empty() || text_at(worker, "id") == fault.worker);
  });
  if (!known && !fault.worker.empty()) return tl::unexpected(where_else(fault, workers, settings.job));
  if (!known) return tl::unexpected(fmt::format("no worker of {} is on this node ({}) now", settings.job, this_node()));
  if (!fault.worker.empty() && faults.is_held(fault.worker))
    return tl::unexpected(fmt::format("{} still suffers from another fault", fault.worker));
  if (!needs_consent(fault.kind)) return tl::unexpected(std::string("all workers of this node suffer from another fault"));
  return tl::unexpected(fault.worker.empty()
                            ? std::string("no worker of this node consents: start them with --drills and the same folder")
                            : fmt::format("{} does not consent: start it with --drills and the same folder", fault.worker));
}

class RunningDrill {
 public:
  RunningDrill(Api& api, const DrillSettings& settings, Faults& faults) : api_(api), settings_(settings), faults_(faults) {
    drill_.job = settings.job;
    drill_.seed = settings.seed;
    generation_ = integer_at(job(), "generation");
  }

  Drill run() {
    drill_.begin_s = now_s();
    for (const PlannedFault& fault : settings_.plan) {
      if (!pass_until(fault.at_s)) break;
      bring_about(fault);
    }
    pass_until(settings_.for_s);
    drill_.end_s = now_s();
    say(faults_.let_go_all());
    if (settings_.wait_for_end && !interrupted) wait_for_end();
    gather();
    return std::move(drill_);
  }

 private:
  Json job() {
    return ask_while_away([&] { return api_.get("/v1/jobs/" + settings_.job); }, kLongPatience);
  }

  void say(const std::string& text) const {
    if (settings_.quiet) return;
    const std::time_t now = std::time(nullptr);
    std::tm parts{};
    localtime_r(&now, &parts);
    fmt::print(stderr, "{:02}:{:02}:{:02}  {}\n", parts.tm_hour, parts.tm_min, parts.tm_sec, text);
  }
  void say(const std::vector<std::string>& texts) const {
    for (const std::string& text : texts) say(text);
  }

  // False: the job ended, or the drill was told to.
  bool pass_until(double at_s) {
    while (now_s() < drill_.begin_s + at_s) {
      if (interrupted || is_over()) return false;
      say(faults_.let_go_due());
      std::this_thread::sleep_for(kLook);
    }
    return !interrupted;
  }

  bool is_over() {
    if (over_ || steady_clock::now() < ask_at_) return over_;
    ask_at_ = steady_clock::now() + kAskEvery;
    try {
      over_ = is_final(text_at(api_.get("/v1/jobs/" + settings_.job), "state"));
    } catch (const Failure& failure) {
      if (failure.exit_code != kUnreachable) throw;
    }
    return over_;
  }

  void bring_about(const PlannedFault& fault) {
    auto done = target_of(fault);
    if (done) {
      // The time is taken before the fault is brought about, so that no commit after the fault counts as one before it.
      const DoneFault note{now_s(), fault.kind, done->worker, fault.hold_s};
      if (const auto brought = faults_.bring_about(fault.kind, *done, fault.hold_s); !brought) {
        done = tl::unexpected(brought.error());
      } else {
        drill_.faults.push_back(note);
        say(fmt::format("{:<12} {}", fault_name(fault.kind), note.worker.empty() ? "the service" : note.worker));
      }
    }
    if (done) return;
    drill_.skipped.push_back({fault, done.error()});
    say(fmt::format("{:<12} left out: {}", fault_name(fault.kind), done.error()));
  }

  tl::expected<Target, std::string> target_of(const PlannedFault& fault) {
    if (fault.kind == FaultKind::kServiceKill) return Target{};
    try {
      const Json workers = ask_while_away([&] { return api_.list("/v1/nodes", "nodes"); }, kPatience);
      return choose_target(fault, workers, settings_, faults_);
    } catch (const Failure& failure) {
      return tl::unexpected(failure.message);
    }
  }

  void wait_for_end() {
    say("no more faults; waiting for the job to end");
    while (!interrupted && !is_over()) std::this_thread::sleep_for(kLook);
  }

  std::vector<Commit> commits_of(const std::string& id) {
    const Json points = ask_while_away([&] { return api_.list("/v1/jobs/" + id + "/metrics", "metrics"); }, kLongPatience);
    std::vector<Commit> commits;
    for (const Json& point : points) {
      commits.push_back({seconds_of(text_at(point, "time")), integer_at(point, "step"), number_at(point, "step_s").value_or(0),
                         integer_at(point, "tokens")});
    }
    return commits;
  }

  // Steps of generations up to the drill's beginning, or of its own, that a later generation took back.
  int64_t steps_lost() {
    const Json rows = ask_while_away([&] { return api_.list("/v1/jobs/" + settings_.job + "/ledger", "rows"); }, kLongPatience);
    std::set<std::pair<int64_t, int64_t>> lost;  // step, generation that took it back
    for (const Json& row : rows) {
      const int64_t voided_by = integer_at(row, "voided_by");
      if (voided_by <= generation_) continue;
      for (int64_t step = integer_at(row, "first_step"); step <= integer_at(row, "last_step"); ++step)
        lost.emplace(step, voided_by);
    }
    return static_cast<int64_t>(lost.size());
  }

  void gather() {
    const Json shown = job();
    drill_.commits = commits_of(settings_.job);
    if (over_ && !drill_.commits.empty())  // perhaps before the drill was
      drill_.end_s = std::min(drill_.end_s, std::max(drill_.commits.back().at_s, drill_.begin_s));
    drill_.steps_lost = steps_lost();
    drill_.hash = text_at(shown, "state_hash");
    drill_.expected_hash = settings_.expected_hash;
    if (!settings_.reference.empty()) {
      const Json reference = ask_while_away([&] { return api_.get("/v1/jobs/" + settings_.reference); }, kLongPatience);
      drill_.reference = commits_of(settings_.reference);
      drill_.expected_hash = text_at(reference, "state_hash");
      if (integer_at(reference, "state_hash_step") != integer_at(shown, "state_hash_step")) {
        drill_.hash_problem =
            fmt::format("{} has a hash after step {}, {} after step {}", settings_.job, integer_at(shown, "state_hash_step"),
                        settings_.reference, integer_at(reference, "state_hash_step"));
      }
    }
    if (!drill_.expected_hash.empty() && text_at(shown, "state") != "succeeded")
      drill_.hash_problem = fmt::format("{} is {}", settings_.job, text_at(shown, "state"));
  }

  Api& api_;
  const DrillSettings& settings_;
  Faults& faults_;
  Drill drill_;
  int64_t generation_ = 0;
  bool over_ = false;
  steady_clock::time_point ask_at_;
};

}  // namespace

std::string this_node() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "worker";
}

tl::expected<Target, std::string> choose_target(const PlannedFault& fault, const Json& workers, const DrillSettings& settings,
                                                const Faults& faults) {
  std::vector<const Json*> candidates;
  int64_t healthy = 0;
  for (const Json& worker : workers) {
    const std::string id = text_at(worker, "id");
    if (!trains(worker, settings.job) || faults.is_held(id)) continue;
    healthy += is_healthy(worker) ? 1 : 0;
    if (text_at(worker, "node") != this_node() || (needs_consent(fault.kind) && !faults.consents(id))) continue;
    if (fault.worker.empty() || fault.worker == id) candidates.push_back(&worker);
  }
  if (candidates.empty()) return no_candidate(fault, workers, settings, faults);
  std::ranges::sort(candidates, {}, [](const Json* worker) { return text_at(*worker, "id"); });
  const Json& chosen = *candidates[fault.draw % candidates.size()];
  const bool last = healthy == 1 && is_healthy(chosen);
  if (last && fault.kind == FaultKind::kCorrupt)
    return tl::unexpected(fmt::format("{} trains alone and sends nothing that could be corrupted", text_at(chosen, "id")));
  if (last && fault.kind != FaultKind::kSlow && !settings.spare_none) {
    return tl::unexpected(fmt::format("{} is the only healthy worker of {}: --spare_none lets it be hit, too",
                                      text_at(chosen, "id"), settings.job));
  }
  return Target{text_at(chosen, "id"), text_at(chosen, "incarnation"), integer_at(chosen, "pid", -1)};
}

Drill run_drill(Api& api, const DrillSettings& settings, Faults& faults) {
  interrupted = false;
  struct sigaction action {
  }, old_int{}, old_term{};
  action.sa_handler = note_interrupt;
  sigaction(SIGINT, &action, &old_int);
  sigaction(SIGTERM, &action, &old_term);
  Drill drill = RunningDrill(api, settings, faults).run();
  sigaction(SIGINT, &old_int, nullptr);
  sigaction(SIGTERM, &old_term, nullptr);
  return drill;
}

}  // namespace holdfast::ops
