// A plan as the service and the command line give it: the figures of the settings asked for beside those of one node and of the
// recommended settings, a table over accumulation and wire types, settings that reach an efficiency of 90 and 97 %, and where
// each number came from. Figures that are not for a whole sync are for an optimizer step and say so, for with sync_every above
// 1 a step of the job is several of them.
//
// Promises: pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "rendezvous/plan/advice.h"

namespace holdfast::rendezvous {

// Where the numbers of a plan are from, in words: "given", "measured by job j7, …".
struct PlanSources {
  std::string speed, link, memory;
  bool link_known = false;  // given or measured; false: kUsualGbitS is taken for it
};

struct PlanReport {
  PlanInputs inputs;
  PlanSources sources;
  PlanFigures figures;                          // of the inputs
  std::vector<std::vector<PlanFigures>> table;  // [kWireTypes][kTableAccumulation]
  Recommendation same_training;                 // the fastest settings that train the same and leave what is to be kept
  Recommendation left_free;                     // the same with nothing kept
  std::vector<Recommendation> recommendations;  // for 90 and 97 %, with nothing kept
};

constexpr int64_t kTableAccumulation[] = {1, 2, 4, 8, 16};

// `allowed`: the settings that may be recommended at all; `kept`: of these, the settings that leave what is to be kept.
PlanReport plan_report(const PlanInputs& inputs, PlanSources sources, const Allowed& allowed, const Allowed& kept);

// `comparison` has one node alone, the settings asked for and same_training. `changes` of a recommendation are the fields of
// the job spec that make the job asked for the recommended one.
nlohmann::json json_of(const PlanReport& report);
// The first sentence to read: several nodes beside one, and what would help.
std::string verdict(const PlanReport& report);
// Sentences to read before the settings of same_training are taken.
std::vector<std::string> notes(const PlanReport& report);

// The rate that is taken for a link of which only the name is known, and the words for that.
struct NominalLink {
  double bytes_per_s;
  std::string source;
};
NominalLink nominal_link(double gbit_s);
inline constexpr double kUsualGbitS = 1, kUsualRoundTripS = 0.0002;  // where nothing is said of the link

}  // namespace holdfast::rendezvous
