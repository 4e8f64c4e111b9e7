// The assignment of workers to jobs: shows the scheduler its inputs, and carries out its plan.
//
// A plan is made when one of the scheduler's inputs has changed, or when time alone may change the plan, as at the end of a
// pause.
// Routine messages (heartbeats, steps, ticks) ask for none.
// Thread: the owner.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/coordinator/decisions.h"
#include "rendezvous/coordinator/queue.h"
#include "rendezvous/coordinator/registry.h"
#include "rendezvous/protocol/labels.h"
#include "rendezvous/scheduler/schedule.h"

namespace holdfast::rendezvous {

class Planning {
 public:
  // All arguments outlive this object.
  Planning(Registry& registry, Decisions& decisions, Queue& queue)
      : registry_(registry), decisions_(decisions), queue_(queue) {}

  // Makes the plan and carries it out, if one was asked for since the last call.
  void replan();
  void ask_if_due();  // asks for a plan when time alone may have changed it
  // Call it when a worker has registered, because its labels and numerics may have changed.
  void forget_known_workers() {
    ineligible_.clear();
    incompatible_by_numerics_.clear();
    jobs_with_own_workers_.reset();
  }
  // The plan that would be made if a job of this spec were submitted now, as Registry::next_job_id(). Nothing is changed.
  Plan plan_with(const JobSpec& spec);
  int64_t made() const { return made_; }  // plans so far, each over all workers and jobs

 private:
  bool plan_once();  // true: something changed
  std::vector<SchedulableJob> jobs_to_plan();
  std::vector<SchedulableWorker> workers_to_plan() const;
  void show_to_planner(const Job& job, SchedulableJob& planned);
  WorkerSet workers_ineligible_for(const Job& job);
  const std::set<std::string>& jobs_with_own_workers();
  WorkerSet workers_incompatible_with(const std::string& numerics);
  bool carry_out(const Plan& plan);
  void note_shortage(Job& job, const Plan& plan);
  bool withdraw_preemptions();
  Millis next_change_ms() const;  // how long until time alone may change the plan

  Registry& registry_;
  Decisions& decisions_;
  Queue& queue_;
  Millis next_plan_ms_ = 0;                                    // a plan is due by then, even if nothing changes before
  std::map<std::string, WorkerSet> incompatible_by_numerics_;  // by numerics: the workers whose numerics differ
  // By the requirements that these workers do not satisfy, and the job that has workers of its own, or "".
  std::map<std::pair<Labels, std::string>, WorkerSet> ineligible_;
  std::optional<std::set<std::string>> jobs_with_own_workers_;  // jobs for which alone a worker came, alive or not
  int64_t made_ = 0;
};

}  // namespace holdfast::rendezvous
