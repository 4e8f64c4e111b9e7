// Post-conditions of every plan, checked in every build: a worker that is dealt twice would be in two jobs.
//
// Ends the process (membership/invariants.h) unless
//   - every worker that is dealt is known, free, dealt once, and to a job that neither refuses it nor finds it unfit;
//   - every worker that is taken back was that job's, and is taken once;
//   - every job that is preempted can be, once, for a job of higher priority that then has or gets its minimum, and gets
//   nothing;
//   - no job that gains a worker has more than its max_nodes;
//   - every job that is left below its min_nodes is told to wait, with the right numbers, and no other job is.
#pragma once

#include <vector>

#include "rendezvous/scheduler/schedule.h"

namespace holdfast::rendezvous {

void require_sound(const std::vector<SchedulableJob>& jobs, const std::vector<SchedulableWorker>& workers, const Plan& plan);

}  // namespace holdfast::rendezvous
