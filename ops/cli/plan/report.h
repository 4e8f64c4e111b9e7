// The report of `holdfast plan`: the figures of the settings asked for, a table over accumulation and wire types, and settings
// that reach an efficiency of 90 and 97 %. As text for people and as JSON; both from the same numbers. Figures that are not for
// a whole sync are for an optimizer step and say so, for with sync_every above 1 a step of the job is several of them.
#pragma once

#include <string>
#include <vector>

#include "ops/cli/command/api.h"
#include "ops/cli/plan/advice.h"

namespace holdfast::ops {

struct PlanReport {
  PlanInputs inputs;
  std::string speed_source, link_source;        // where microbatch_s and the link's rate are from
  PlanFigures figures;                          // of the inputs
  std::vector<std::vector<PlanFigures>> table;  // [rendezvous::kWireTypes][kTableAccumulation]
  Recommendation same_training;                 // the fastest settings that train the same
  std::vector<Recommendation> recommendations;  // for 90 and 97 %
};

constexpr int64_t kTableAccumulation[] = {1, 2, 4, 8, 16};

// `allowed`: what may be recommended.
PlanReport plan_report(const PlanInputs& inputs, std::string speed_source, std::string link_source, const Allowed& allowed);
Json json_of(const PlanReport& report);
// The first sentence to read: several nodes beside one.
std::string verdict(const PlanReport& report);
std::string text_of(const PlanReport& report);

}  // namespace holdfast::ops
