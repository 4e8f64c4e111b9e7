// What a job that is queued or waiting waits for, and the reason that is shown of every job.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "rendezvous/coordinator.h"

namespace holdfast::rendezvous {

// {kind, text, …}, or null for a job that does not wait. By kind:
//   job         job: must have succeeded first
//   retry       retry, retries, at: begins again then
//   workers     needed, there, missing, on_the_way: workers; refused [{worker, reason}]: are not taken, and why;
//               unsatisfied: what the job requires that not all workers have, or null; busy [{job, priority, workers}]: with
//               other jobs
//   preemption  as workers; job, priority: which took them away
nlohmann::json waits_for(const Coordinator& state, const Job& job);

// The text of it, or what the membership says of a job that does not wait.
std::string reason_of(const Coordinator& state, const Job& job);

}  // namespace holdfast::rendezvous
