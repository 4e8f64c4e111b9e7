// What a job that is queued or waiting waits for, and the reason that is shown of every job.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "rendezvous/coordinator/coordinator.h"

namespace holdfast::rendezvous {

// The workers as waiting jobs see them: which other jobs have the workers that a job could use. Made for one answer, which may
// tell of many jobs: workers are counted once for all jobs with the same requirements. Valid until the state changes.
class WaitingRoom {
 public:
  struct Busy {
    int64_t priority = 0, workers = 0;
  };
  struct Competition {
    std::map<std::string, Busy> busy;  // by job: its workers that satisfy the requirements
    std::string unsatisfied;           // unsatisfied_in_words
  };

  explicit WaitingRoom(const Coordinator& state) : state_(state) {}
  const Coordinator& state() const { return state_; }
  const Competition& competition_for(const Labels& requirements) const;

 private:
  const Coordinator& state_;
  mutable std::map<Labels, Competition> competitions_;
};

// {kind, text, …}, or null for a job that does not wait. By kind:
//   job         job: must have succeeded first
//   retry       retry, retries, at: begins again then
//   workers     needed, there, missing, on_the_way: workers; refused [{worker, reason}]: are not taken, and why;
//               unsatisfied: what the job requires that not all workers have, or null; busy [{job, priority, workers}]: with
//               other jobs
//   preemption  as workers; job, priority: which took them away
nlohmann::json waits_for(const WaitingRoom& room, const Job& job);

// The text of it, or what the membership says of a job that does not wait.
std::string reason_of(const WaitingRoom& room, const Job& job);

}  // namespace holdfast::rendezvous
