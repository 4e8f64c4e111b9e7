// The numerics of the workers that are present, and those that a plan chose for each job whose workers must be alike.
// Private to the scheduler.
#pragma once

#include <map>
#include <set>
#include <string>

#include "rendezvous/scheduler/schedule.h"

namespace holdfast::rendezvous {

class WorkerKinds {
 public:
  void add(const SchedulableWorker& worker) {
    numerics_[worker.id] = worker.numerics;
    all_.insert(worker.numerics);
  }
  const std::map<std::string, std::string>& by_worker() const { return numerics_; }
  const std::set<std::string>& all() const { return all_; }
  const std::string& of(const std::string& worker) const {  // "" of a worker that is not present
    static const std::string kNone;
    const auto found = numerics_.find(worker);
    return found == numerics_.end() ? kNone : found->second;
  }

  void choose(const SchedulableJob& job, const std::string& kind) { chosen_[job.id] = kind; }
  bool is_chosen(const SchedulableJob& job) const { return chosen_.contains(job.id); }
  const std::string& chosen(const SchedulableJob& job) const { return chosen_.at(job.id); }
  // Before a kind is chosen for the job every worker fits.
  bool fits(const std::string& worker, const SchedulableJob& job) const {
    const auto chosen = chosen_.find(job.id);
    return chosen == chosen_.end() || of(worker) == chosen->second;
  }

 private:
  std::map<std::string, std::string> numerics_, chosen_;  // by worker; by job
  std::set<std::string> all_;
};

}  // namespace holdfast::rendezvous
