// `after`: the job that must have succeeded before another begins.
//
// With resume_from job:ID of that same job the state that it ends with is where the other begins, so that runs can be chained
// before the first has ended. Which checkpoint that is shows then; whether the other can go on from it at all is judged at
// once, from the specs.
#pragma once

#include <string>

#include "rendezvous/coordinator/coordinator.h"
#include "rendezvous/coordinator/refusal.h"

namespace holdfast::rendezvous {

struct Dependency {
  std::string job;             // its id; "" for none, or when it has succeeded already
  bool resumes_later = false;  // resume_from means the newest checkpoint that it will have
  std::string resume_from;     // it has succeeded, and resume_from names it: the same by its id; else ""
};

// Refuses, naming the field: one that is not known, and one that has failed or was cancelled already.
OrRefusal<Dependency> find_dependency(const Coordinator& state, const JobSpec& spec);

}  // namespace holdfast::rendezvous
