// `after`: the job that must have succeeded before another begins.
//
// With resume_from job:ID of the same job, the later job begins with the state at the earlier job's end, so that runs can be
// chained before the first has ended. The checkpoint is chosen at that end. Whether the later job can go on from it at all is
// judged at once, from the two specs.
// Thread: the owner's.
#pragma once

#include <string>

#include "rendezvous/coordinator/coordinator.h"
#include "rendezvous/coordinator/refusal.h"

namespace holdfast::rendezvous {

struct Dependency {
  std::string job;             // the id of the job to wait for; "": there is none, or it has succeeded already
  bool resumes_later = false;  // resume_from stands for the newest checkpoint that this job will have at its end
  std::string resume_from;     // "job:ID" if this job has succeeded already and resume_from names it; else ""
};

// Refuses a job that is unknown, has failed or was cancelled; the refusal names the field.
OrRefusal<Dependency> find_dependency(const Coordinator& state, const JobSpec& spec);

}  // namespace holdfast::rendezvous
