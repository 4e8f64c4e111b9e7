// What a job that is queued or waiting waits for, and the reason that is shown of every job.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "rendezvous/coordinator.h"

namespace holdfast::rendezvous {

// The workers, as jobs that wait look at them. Made for one answer, however many jobs it tells of: who has which workers is
// counted once for all that require the same. Holds until the state changes.
class WaitingRoom {
 public:
  struct Busy {
    int64_t priority = 0, workers = 0;
  };
  struct Sight {
    std::map<std::string, Busy> busy;  // by job that has workers: those of them that satisfy the requirements
    std::string unsatisfied;           // unsatisfied_in_words
  };

  explicit WaitingRoom(const Coordinator& state) : state_(state) {}
  const Coordinator& state() const { return state_; }
  const Sight& sight_of(const Labels& requirements) const;

 private:
  const Coordinator& state_;
  mutable std::map<Labels, Sight> sights_;
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
