// The cost of a drill: pure arithmetic over the faults that were brought about and the steps that the job committed.
//
// Words: a step's time is as its worker measured it, from its beginning to its commit. Between a commit and the beginning of
// the step that is committed next the job makes no progress; that is counted from the commit times, which the service notes
// when it hears of them. Steps that it heard of together (because it was away) are placed as late as their step times allow.
// Throughput kept: tokens committed per second of the drill, over those per second before it or of the reference job.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "ops/cli/chaos/plan.h"

namespace holdfast::ops {

struct Commit {
  double at_s = 0;  // seconds since 1970
  int64_t step = 0;
  double step_s = 0;
  int64_t tokens = 0;
};

struct DoneFault {
  double at_s = 0;  // seconds since 1970
  FaultKind kind = FaultKind::kKill;
  std::string worker;  // "" for the service
  double hold_s = 0;
};
struct SkippedFault {
  PlannedFault planned;
  std::string reason;
};

struct Drill {
  std::string job;
  uint64_t seed = 0;
  double begin_s = 0, end_s = 0;  // seconds since 1970: of the disturbed time
  std::vector<DoneFault> faults;  // in order
  std::vector<SkippedFault> skipped;
  std::vector<Commit> commits;    // of the job, as heard, from some time before begin_s
  std::vector<Commit> reference;  // of the undisturbed job; empty: the commits before begin_s serve as one
  std::optional<int64_t> steps_lost;
  std::string hash, expected_hash, hash_problem;  // hash_problem: why there is nothing to compare
};

struct FaultCost {
  double without_progress_s = 0;  // no step under way that was committed, after this fault and before the next
  double slower_s = 0;            // by how much the steps took longer than undisturbed ones, together
};
struct DrillReport {
  std::vector<FaultCost> costs;   // one a fault
  FaultCost unasked;              // before the first fault
  int64_t steps = 0, tokens = 0;  // committed in the disturbed time
  double seconds = 0;
  std::optional<double> usual_step_s, usual_tokens_per_s, throughput_kept;  // none: too few undisturbed steps were seen
  std::optional<bool> same_hash;
};

// Commit times no later than heard, and each early enough for the step after it.
std::vector<Commit> settle_commit_times(std::vector<Commit> commits);
DrillReport judge(const Drill& drill);

std::string report_text(const Drill& drill, const DrillReport& report);
nlohmann::json report_json(const Drill& drill, const DrillReport& report);

}  // namespace holdfast::ops
