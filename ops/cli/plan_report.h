// What `holdfast plan` says: the figures of the settings asked for, a table over accumulation and wire types, and settings that
// reach an efficiency of 90 and 97 %. As text for people and as JSON; both from the same numbers. What is not of a whole sync
// is of an optimizer step and says so, for with sync_every above 1 a step of the job is several of them.
#pragma once

#include <string>
#include <vector>

#include "ops/cli/api.h"
#include "ops/cli/plan_model.h"

namespace holdfast::ops {

struct PlanReport {
  PlanInputs inputs;
  std::string speed_source, link_source;        // where microbatch_s and the link's rate are from
  PlanFigures figures;                          // of the inputs
  std::vector<std::vector<PlanFigures>> table;  // [wire_types()][kTableAccumulation]
  std::vector<Recommendation> recommendations;  // for 90 and 97 %
};

constexpr int64_t kTableAccumulation[] = {1, 2, 4, 8, 16};

// `allowed`: what may be recommended.
PlanReport plan_report(const PlanInputs& inputs, std::string speed_source, std::string link_source, const Allowed& allowed);
Json json_of(const PlanReport& report);
std::string text_of(const PlanReport& report);

}  // namespace holdfast::ops
