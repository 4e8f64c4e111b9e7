// The planner: one plan in the making. Private to the scheduler.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "rendezvous/scheduler/schedule.h"
#include "rendezvous/scheduler/worker_kinds.h"

namespace holdfast::rendezvous {

inline int64_t have(const SchedulableJob& job) {
  return static_cast<int64_t>(job.workers.size());
}
inline bool satisfies(const std::string& worker, const SchedulableJob& job) {
  return job.unfit == nullptr || !job.unfit->contains(worker);
}
// Whether the job might find it unfit only when it is there.
inline bool is_doubtful(const std::string& worker, const SchedulableJob& job) {
  return job.doubtful.contains(worker) || (job.unlike != nullptr && job.unlike->contains(worker));
}

class Planner {
 public:
  Planner(std::vector<SchedulableJob> jobs, const std::vector<SchedulableWorker>& workers, int64_t now_ms);
  Plan plan();

 private:
  struct Spare {  // a worker that its job can do without
    size_t job;   // in jobs_
    std::string worker;
  };

  // --- schedule.cpp: free workers, and how many of them each job gets
  bool can_train(const SchedulableJob& job) const { return have(job) >= job.min_nodes && !out_.contains(job.id); }
  bool fits(const std::string& worker, const SchedulableJob& job) const {
    return !job.refused.contains(worker) && satisfies(worker, job) && (!job.alike || kinds_.fits(worker, job));
  }
  int64_t fitting(const std::vector<std::string>& workers, const SchedulableJob& job) const;
  void deal_the_rest();
  void give(SchedulableJob& job, int64_t target);
  void take(SchedulableJob& job, const std::string& worker, const std::string& reason, const std::string& by = {});
  void anything_changed() { bounds_.clear(), in_vain_.clear(); }
  void shrink(SchedulableJob& job);
  void deal_extras();
  void replace(SchedulableJob& job);
  void explain(const SchedulableJob& job);

  // --- minimum.cpp: bringing a job to its minimum
  void reach_minimum(SchedulableJob& job);
  bool begin(SchedulableJob& job);
  void hoard(SchedulableJob& job);
  void begin_with(SchedulableJob& job, const std::vector<Spare>& spare);
  void claim_coming(SchedulableJob& job);
  void release_held_back(const SchedulableJob& job, int64_t wanted, int64_t others);
  std::vector<Spare> spare_for(const SchedulableJob& job) const;
  std::vector<std::string> spare_of(const SchedulableJob& other, const SchedulableJob& job) const;
  int64_t obtainable_at_most(const SchedulableJob& job);
  bool has_waited(const SchedulableJob& job, int64_t ms = kPatienceMs) const {
    return job.waits_since_ms && now_ms_ - *job.waits_since_ms >= ms;
  }
  bool is_assured(const SchedulableJob& job) const;
  bool could_begin(const SchedulableJob& job) const;
  bool outranks(const SchedulableJob& other, const SchedulableJob& job) const;
  void note_hoarder(const SchedulableJob& job);
  bool is_kept(const std::string& worker) const;

  // --- kinds.cpp: the kind of worker that a job takes whose workers must be alike
  struct Prospect {         // with the workers of one kind; the greater the better
    bool present = false;   // enough of them are there, whoever has them
    int ease = 0;           // 3: enough are at hand; 2: with what others spare; 1: with preemption; 0: too few
    bool has_them = false;  // enough are its own
    int64_t workers = 0;    // that it could get, where that is enough
    int64_t own = 0, at_hand = 0;
    auto operator<=>(const Prospect&) const = default;
  };
  using Class = std::tuple<int64_t, int64_t, const void*>;  // priority, min_nodes, who does not fit
  bool choose_kind(const SchedulableJob& job);
  Prospect prospect_of(const SchedulableJob& job) const;
  void return_other_kinds(SchedulableJob& job);

  // --- preemption.cpp: which jobs give up their workers for another one
  struct Candidate {                      // for preemption
    size_t job;                           // in jobs_
    std::vector<std::string> all, spare;  // its workers that are of use; of these, what it gives without being preempted
  };
  struct Pool {  // the workers that a job could have
    std::vector<Candidate> candidates;
    std::vector<std::string> at_hand;  // without disturbing one of them

    int64_t workers_with(const std::vector<size_t>& preempted) const;  // when these jobs are preempted
  };
  std::vector<size_t> victims_for(const SchedulableJob& job, const std::vector<Spare>& spare) const;
  Pool pool_for(const SchedulableJob& job, const std::vector<Spare>& spare) const;
  bool may_preempt(const SchedulableJob& job, const SchedulableJob& other) const;
  void preempt(size_t victim, const SchedulableJob& by);

  // --- extras.cpp: extras that had better be elsewhere
  struct Move {
    size_t from, to;
    std::string worker;
  };
  void move_extras();
  bool find_move(Move& move) const;
  bool should_move(const SchedulableJob& from, const SchedulableJob& to) const;
  int64_t extras(const SchedulableJob& job) const;
  int64_t expected(const SchedulableJob& job) const;

  std::vector<SchedulableJob> jobs_;         // highest priority first, then the oldest
  std::set<size_t> staffed_;                 // of jobs_, those that have workers
  std::map<std::string, std::string> last_;  // worker -> its last job
  std::vector<std::string> free_, held_back_;
  std::vector<std::string> coming_;          // and not claimed yet
  std::map<std::string, int64_t> claimed_;   // job -> how many workers are being freed for it
  std::map<std::string, int64_t> promised_;  // job -> extras that are being taken from others for it
  std::set<std::string> given_;              // jobs that get workers by this plan
  std::set<std::string> out_;                // jobs that are preempted in this plan
  WorkerKinds kinds_;
  std::map<Class, std::string> in_vain_;  // jobs for which no kind is enough -> the best one, until anything changes
  // Impatient jobs, which come before the one that is looked at now and keep workers that become free; of like jobs one.
  std::vector<const SchedulableJob*> hoarders_;
  std::set<std::pair<Class, bool>> known_hoarders_;
  // By priority and who does not fit: obtainable_at_most, until anything changes.
  std::map<std::pair<int64_t, const void*>, int64_t> bounds_;
  bool moving_ = false;  // somebody is on the way, or will be by this plan
  int64_t now_ms_;
  Plan plan_;
};

}  // namespace holdfast::rendezvous
