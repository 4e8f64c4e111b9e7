// resume_from: from what a user wrote to checkpoints that were verified.
//
//   latest         the newest checkpoint over all jobs of the same name; may fall back to older ones, and says so
//   STEP           the newest checkpoint of that step over the same jobs
//   job:ID[@STEP]  that job's checkpoint of that step, or its newest
//   PATH           a folder that holds a job's checkpoints (or one of them: …/step-0000000060), absolute or file:///…
// All but `latest` are explicit: what cannot be had is an error. A job's checkpoint in a shared folder that this machine does
// not see is taken unverified, and the worker that reads it verifies it; a PATH has to be seen from here.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "rendezvous/coordinator/coordinator.h"
#include "rendezvous/coordinator/refusal.h"

namespace holdfast::rendezvous {

struct ResumePlan {
  std::vector<StateSource> candidates;  // best first; step -1: the newest in the folder
  bool may_fall_back = false;
};

// From the catalogue; on the owner thread, reads nothing from disk.
OrRefusal<ResumePlan> plan_resume(const Coordinator& state, const JobSpec& spec);

struct ResumeChoice {
  std::vector<StateSource> sources;  // the verified one, then (latest only) the older ones
  std::string note;                  // for the event: what was chosen, and what was passed over and why
};
// Reads and verifies; blocks, any thread. `data_dir`: where this service keeps objects.
// `checkpoint_roots`: where folders may be (storage::OpenOptions::roots).
OrRefusal<ResumeChoice> verify_resume(const ResumePlan& plan, const JobSpec& spec, const std::string& data_dir,
                                      const std::vector<std::string>& checkpoint_roots = {});

// Why a state that was trained under the spec `theirs` is of no use to a job of this one; "" when it is.
std::string cannot_go_on(const nlohmann::json& theirs, const JobSpec& spec);

}  // namespace holdfast::rendezvous
