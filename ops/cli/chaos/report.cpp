#include "ops/cli/chaos/report.h"

#include <fmt/format.h>

#include <algorithm>

#include "ops/cli/terminal/format.h"
#include "ops/cli/terminal/quantities.h"
#include "ops/cli/terminal/table.h"
#include "rendezvous/text/plural.h"

namespace holdfast::ops {
namespace {

constexpr size_t kUndisturbedStepsMin = 10;
constexpr double kUndisturbedSecondsMax = 60;  // before the drill: what was longer ago may have been another world size

// Undisturbed steps: the reference's, else those shortly before the drill.
std::vector<Commit> undisturbed(const Drill& drill) {
  if (!drill.reference.empty()) return settle_commit_times(drill.reference);
  std::vector<Commit> before;
  for (const Commit& commit : drill.commits) {
    if (commit.at_s <= drill.begin_s && commit.at_s > drill.begin_s - kUndisturbedSecondsMax) before.push_back(commit);
  }
  return settle_commit_times(std::move(before));
}

void note_usual(DrillReport& report, const std::vector<Commit>& commits) {
  if (commits.size() < kUndisturbedStepsMin) return;
  std::vector<double> times;
  int64_t tokens = 0;
  for (size_t i = 1; i < commits.size(); ++i) {
    times.push_back(commits[i].step_s);
    tokens += commits[i].tokens;
  }
  report.usual_step_s = median(std::move(times));
  const double seconds = commits.back().at_s - commits.front().at_s;
  if (seconds > 0) report.usual_tokens_per_s = static_cast<double>(tokens) / seconds;
}

// The cost record of the last fault before `time`; moments before the first fault go to `unasked`.
FaultCost& cost_at(DrillReport& report, const Drill& drill, double time) {
  const auto after = std::ranges::upper_bound(drill.faults, time, {}, &DoneFault::at_s);
  return after == drill.faults.begin() ? report.unasked : report.costs[static_cast<size_t>(after - drill.faults.begin()) - 1];
}

void note_costs(DrillReport& report, const Drill& drill, const std::vector<Commit>& commits) {
  for (size_t i = 1; i < commits.size(); ++i) {
    const Commit& commit = commits[i];
    const double begin = commit.at_s - commit.step_s;
    if (commit.at_s <= drill.begin_s || begin > drill.end_s) continue;
    cost_at(report, drill, begin).without_progress_s += std::max(0.0, begin - commits[i - 1].at_s);
    if (report.usual_step_s) cost_at(report, drill, commit.at_s).slower_s += commit.step_s - *report.usual_step_s;
  }
}

void note_throughput(DrillReport& report, const Drill& drill, const std::vector<Commit>& commits) {
  report.seconds = drill.end_s - drill.begin_s;
  for (const Commit& commit : commits) {
    if (commit.at_s <= drill.begin_s || commit.at_s > drill.end_s) continue;
    ++report.steps;
    report.tokens += commit.tokens;
  }
  if (report.usual_tokens_per_s && report.seconds > 0)
    report.throughput_kept = static_cast<double>(report.tokens) / report.seconds / *report.usual_tokens_per_s;
}

std::string percent(const std::optional<double>& part) {
  return part ? fmt::format("{:.1f} %", 100 * *part) : "not known: too few undisturbed steps were seen";
}

std::string hash_line(const Drill& drill, const DrillReport& report) {
  if (!report.same_hash) return drill.hash_problem.empty() ? "not asked for" : "not compared: " + drill.hash_problem;
  if (*report.same_hash) return "equal: " + drill.hash;
  return fmt::format("DIFFERENT: {}, expected {}", drill.hash, drill.expected_hash);
}

std::string faults_table(const Drill& drill, const DrillReport& report) {
  Table table({"AT", "FAULT", "ON", "HELD", "WITHOUT PROGRESS", "SLOWER STEPS"});
  for (size_t i = 0; i < drill.faults.size(); ++i) {
    const DoneFault& fault = drill.faults[i];
    table.add({fmt::format("{:.1f} s", fault.at_s - drill.begin_s), fault_name(fault.kind),
               fault.worker.empty() ? "the service" : fault.worker,
               lasts(fault.kind) ? fmt::format("{:.1f} s", fault.hold_s) : "-",
               fmt::format("{:.2f} s", report.costs[i].without_progress_s),
               report.usual_step_s ? fmt::format("{:+.2f} s", report.costs[i].slower_s) : "-"});
  }
  return table.text(0);
}

}  // namespace

std::vector<Commit> settle_commit_times(std::vector<Commit> commits) {
  for (size_t i = commits.size(); i-- > 1;) {
    Commit& before = commits[i - 1];
    // A job that went back does steps again. The commit before then belongs to another history, and its time stands.
    if (before.step + 1 == commits[i].step) before.at_s = std::min(before.at_s, commits[i].at_s - commits[i].step_s);
  }
  return commits;
}

DrillReport judge(const Drill& drill) {
  DrillReport report;
  report.costs.resize(drill.faults.size());
  const std::vector<Commit> commits = settle_commit_times(drill.commits);
  note_usual(report, undisturbed(drill));
  note_costs(report, drill, commits);
  note_throughput(report, drill, commits);
  if (drill.hash_problem.empty() && !drill.expected_hash.empty()) report.same_hash = drill.hash == drill.expected_hash;
  return report;
}

std::string report_text(const Drill& drill, const DrillReport& report) {
  std::string text = fmt::format("{}: {} in {}, seed {}\n\n", drill.job, rendezvous::counted(drill.faults.size(), "fault"),
                                 duration_text(report.seconds), drill.seed);
  if (!drill.faults.empty()) text += faults_table(drill, report) + "\n";
  for (const SkippedFault& skipped : drill.skipped) {
    text +=
        fmt::format("left out: {} at {:.1f} s: {}\n", fault_name(skipped.planned.kind), skipped.planned.at_s, skipped.reason);
  }
  text += fmt::format("throughput kept  {} ({} steps, {} tokens)\n", percent(report.throughput_kept), count_text(report.steps),
                      count_text(report.tokens));
  text += fmt::format("steps lost       {}\n", drill.steps_lost ? count_text(*drill.steps_lost) : "not known");
  text += fmt::format("state hash       {}\n", hash_line(drill, report));
  return text;
}

nlohmann::json report_json(const Drill& drill, const DrillReport& report) {
  const auto or_null = [](const auto& value) { return value ? nlohmann::json(*value) : nlohmann::json(nullptr); };
  nlohmann::json json = {
      {"job", drill.job},
      {"seed", drill.seed},
      {"begin_s", drill.begin_s},
      {"seconds", report.seconds},
      {"steps", report.steps},
      {"tokens", report.tokens},
      {"usual_step_s", or_null(report.usual_step_s)},
      {"usual_tokens_per_s", or_null(report.usual_tokens_per_s)},
      {"throughput_kept", or_null(report.throughput_kept)},
      {"steps_lost", or_null(drill.steps_lost)},
      {"state_hash", drill.hash.empty() ? nlohmann::json(nullptr) : nlohmann::json(drill.hash)},
      {"same_hash", or_null(report.same_hash)},
      {"hash_problem", drill.hash_problem},
      {"unasked", {{"without_progress_s", report.unasked.without_progress_s}, {"slower_s", report.unasked.slower_s}}}};
  json["faults"] = nlohmann::json::array();
  for (size_t i = 0; i < drill.faults.size(); ++i) {
    const DoneFault& fault = drill.faults[i];
    json["faults"].push_back({{"at_s", fault.at_s - drill.begin_s},
                              {"fault", fault_name(fault.kind)},
                              {"worker", fault.worker.empty() ? nlohmann::json(nullptr) : nlohmann::json(fault.worker)},
                              {"held_s", fault.hold_s},
                              {"without_progress_s", report.costs[i].without_progress_s},
                              {"slower_s", report.costs[i].slower_s}});
  }
  json["skipped"] = nlohmann::json::array();
  for (const SkippedFault& skipped : drill.skipped) {
    json["skipped"].push_back(
        {{"at_s", skipped.planned.at_s}, {"fault", fault_name(skipped.planned.kind)}, {"reason", skipped.reason}});
  }
  return json;
}

}  // namespace holdfast::ops
