// A job spec as the planner's inputs, and the settings that may take their place.
//
// Promises: pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "rendezvous/plan/advice.h"
#include "rendezvous/protocol/job_spec.h"

namespace holdfast::rendezvous {

// Without speed, link and memory. `given`: the fields as they were sent, from which `spec` was parsed. Where the microbatches
// of a step do not divide over the nodes, accumulation is that of the node with the most.
PlanInputs inputs_of(const JobSpec& spec, const nlohmann::json& given);

// The settings under which the spec's rules take the job. `spec` and `given` as above, `asked` their inputs.
Allowed taken_by_rules(JobSpec spec, const nlohmann::json& given, const PlanInputs& asked);
// Of these, the settings that leave the fields of `keep` (names of the job spec's) as `asked` has them.
Allowed leaving(Allowed allowed, std::vector<std::string> keep, const PlanInputs& asked);

}  // namespace holdfast::rendezvous
