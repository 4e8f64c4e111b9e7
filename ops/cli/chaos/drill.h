// A drill as it runs: brings each planned fault about at its time, waits for the facts that the report needs, and gathers them.
//
// Promises: acts on processes of this node only, and on workers of this job only; a fault that cannot be brought about is
// left out with the reason. Ctrl-C and SIGTERM end the drill early: frozen and cut workers are let go, and the report is made.
#pragma once

#include <vector>

#include "ops/cli/chaos/faults.h"
#include "ops/cli/chaos/report.h"
#include "ops/cli/command/api.h"

namespace holdfast::ops {

struct DrillSettings {
  std::string job;  // id
  std::vector<PlannedFault> plan;
  double for_s = 0;
  uint64_t seed = 0;
  bool spare_none = false;  // the only worker of the job may be hit, too
  bool quiet = false;
  bool wait_for_end = false;
  std::string expected_hash, reference;  // "": not asked for
};

// The name under which workers of this machine know it.
std::string this_node();

// The worker that a fault will hit, or the reason why none can be hit. `workers`: rows of /v1/nodes; `faults` knows which are
// held and which consent.
tl::expected<Target, std::string> choose_target(const PlannedFault& fault, const Json& workers, const DrillSettings& settings,
                                                const Faults& faults);

Drill run_drill(Api& api, const DrillSettings& settings, Faults& faults);

}  // namespace holdfast::ops
