// The tables of jobs and workers, and notes of the changes that may need a new directive or a new plan.
//
// Every part of the coordinator changes jobs and workers in these tables, and saves them here. Code that changes an input of a
// worker's directive calls touch().
// Thread: the owner.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "rendezvous/coordinator/clock.h"
#include "rendezvous/coordinator/journal.h"
#include "rendezvous/coordinator/state.h"

namespace holdfast::rendezvous {

class Registry {
 public:
  // Both arguments outlive this object.
  Registry(Journal& journal, const Clock& clock) : journal_(journal), clock_(clock) {}

  Millis now() const { return clock_.steady_ms(); }
  int64_t wall_ms() const { return clock_.wall_ms(); }

  // --- jobs
  Job& add(std::unique_ptr<Job> job);
  Job* find_job(const std::string& id);  // nullptr: there is none
  const Job* find_job(const std::string& id) const;
  const std::map<int64_t, std::unique_ptr<Job>>& jobs() const { return jobs_; }  // by number
  // The jobs that have not ended, by number; some that ended since the last drop_ended_jobs() are still among them.
  const std::map<int64_t, Job*>& live_jobs() const { return live_jobs_; }
  void drop_ended_jobs();
  void save(Job& job);  // writes the row if it differs from the one in the store
  int64_t next_job_number() const;
  std::string next_job_id() const;
  void reserve_job_number(int64_t number);  // no new job gets this number or a smaller one

  // --- workers
  std::map<std::string, Worker>& workers() { return workers_; }  // by name
  const std::map<std::string, Worker>& workers() const { return workers_; }
  Worker* find_worker(const std::string& name);  // nullptr: there is none
  void save(const Worker& worker);
  // The job's refusal is in force for the incarnation that was refused, for good or for a while, longer each time in a row;
  // else null.
  void refuse(Job& job, RefusalRow row, bool for_good);
  const RefusedWorker* refusal_of(const Job& job, const std::string& worker) const;
  // Notes that the worker's directive may have changed, or its life may have ended.
  void touch(const std::string& worker);
  std::set<std::string> take_touched() { return std::exchange(touched_, {}); }  // since the last call

  // --- the plan
  void ask_for_plan() { plan_asked_ = true; }
  bool is_plan_asked() const { return plan_asked_; }
  void drop_plan_request() { plan_asked_ = false; }

 private:
  Journal& journal_;
  const Clock& clock_;
  std::map<int64_t, std::unique_ptr<Job>> jobs_;
  std::map<std::string, Job*> jobs_by_id_;
  std::map<int64_t, Job*> live_jobs_;
  int64_t reserved_number_ = 0;  // jobs up to this number have existed, even if the database does not know them
  std::map<std::string, Worker> workers_;
  std::set<std::string> touched_;
  bool plan_asked_ = true;  // the next plan may differ from the last
};

}  // namespace holdfast::rendezvous
