// The things that a queued or waiting job waits for, and the reason that is shown for every job.
//
// Thread: the owner's.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "rendezvous/coordinator/coordinator.h"

namespace holdfast::rendezvous {

// The workers as waiting jobs see them: which other jobs have workers that a job could use. One is made for each answer, which
// may be about many jobs: workers are counted once for all jobs with the same requirements. Valid until the state changes.
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

// {kind, text, …}, or null for a job that does not wait. Further fields by kind:
//   job         job: the job that must succeed first
//   retry       retry, retries: the number of this retry, and how many the spec allows; at: when the job begins again
//   workers     needed, there, missing, on_the_way: numbers of workers; refused [{worker, reason}]: workers that are not
//               accepted; unsatisfied: requirements that not all workers satisfy, in words, or null; busy [{job, priority,
//               workers}]: usable workers that other jobs have
//   preemption  the fields of workers; job, priority: the job that took the workers away
nlohmann::json waits_for(const WaitingRoom& room, const Job& job);

// The `text` of waits_for, or for a job that does not wait the membership's reason.
std::string reason_of(const WaitingRoom& room, const Job& job);

}  // namespace holdfast::rendezvous
