// Which faults a drill brings about, when, and on whom: drawn from a seed, or read from a script.
//
// Promises: the same seed and settings give the same plan, on any machine. A plan is only data: nothing is done here.
// Script, one fault a line, in order of time:    AT FAULT [WORKER] [for DURATION]        # comment
//   10s kill w2
//   25s freeze w1 for 6s
//   40s service_kill
#pragma once

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <vector>

namespace holdfast::ops {

enum class FaultKind : uint8_t { kKill, kFreeze, kCut, kSlow, kCorrupt, kServiceKill };
// "kill", "freeze", "cut", "slow", "corrupt", "service-kill".
const char* fault_name(FaultKind kind);
bool lasts(FaultKind kind);          // freeze, cut, slow: until it is taken back
bool needs_consent(FaultKind kind);  // cut, slow, corrupt: the worker obeys files (worker/drills/drills.h)

struct PlannedFault {
  double at_s = 0;  // after the drill's start
  FaultKind kind = FaultKind::kKill;
  std::string worker;  // "": drawn
  uint64_t draw = 0;   // chooses among the workers that the fault can hit: index draw % their number
  double hold_s = 0;   // of those that last
  bool operator==(const PlannedFault&) const = default;
};

struct PlanSettings {
  std::vector<FaultKind> kinds;
  double every_s = 15;  // the mean pause; each one is drawn between 0.5 and 1.5 times this
  double for_s = 60;
  double hold_s = 6;
  uint64_t seed = 1;
};

// The error is for people and names what is wrong.
tl::expected<std::vector<FaultKind>, std::string> parse_faults(const std::string& list);  // "kill,freeze"
tl::expected<double, std::string> parse_duration(const std::string& text);                // "15s", "10m", "500ms" -> seconds
tl::expected<std::vector<PlannedFault>, std::string> parse_script(const std::string& text, double hold_s, uint64_t seed);
std::vector<PlannedFault> draw_plan(const PlanSettings& settings);

}  // namespace holdfast::ops
