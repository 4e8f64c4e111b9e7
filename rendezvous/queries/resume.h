// The user's resume_from, and the verified checkpoints that it stands for.
//
//   latest         the newest checkpoint of all jobs with the same name; may fall back to older ones, and says so
//   STEP           the newest checkpoint of that step, of the same jobs
//   job:ID[@STEP]  that job's checkpoint of that step, or its newest checkpoint
//   PATH           a folder of a job's checkpoints, or one checkpoint in it (…/step-0000000060); absolute or file:///…
// Only `latest` falls back. With the other three, a checkpoint that cannot be read is an error. If a job's checkpoint is in a
// shared folder that this machine does not see, it is accepted without verification, and the worker that reads it verifies
// it. A PATH must be visible from this machine.
#pragma once

#include <functional>
#include <map>
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
  std::map<std::string, std::string> unfit = {};  // job: why the submitted one cannot go on from its state
};

// Chooses from the catalogue and reads nothing from disk. Thread: the owner's.
OrRefusal<ResumePlan> plan_resume(const Coordinator& state, const JobSpec& spec);

// A job's checkpoint of that step; -1: its newest. `field`: of the spec, which a refusal names. Thread: the owner's.
OrRefusal<StateSource> checkpoint_of_job(const Coordinator& state, const std::string& id, int64_t step, const char* field);

struct ResumeChoice {
  std::vector<StateSource> sources;  // the verified checkpoint, then (only for `latest`) the older ones
  std::string note;                  // for the event: the checkpoint that was chosen, those that were left out, and why
};
// Reads and verifies the candidates. `data_dir`: this service keeps objects below it. `checkpoint_roots`: folders must be
// below one of these (storage::OpenOptions::roots); none: anywhere. Thread: any; blocks.
OrRefusal<ResumeChoice> verify_resume(const ResumePlan& plan, const JobSpec& spec, const std::string& data_dir,
                                      const std::vector<std::string>& checkpoint_roots = {});

// Why a job with this spec cannot go on from a state that was trained under the spec `theirs`; "" when it can.
std::string cannot_go_on(const nlohmann::json& theirs, const JobSpec& spec);

}  // namespace holdfast::rendezvous
