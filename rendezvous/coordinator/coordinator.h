// The service's whole knowledge of jobs and workers, and all requests about them.
//
// It hands each request to the part that the request concerns; the parts' headers say more. Their order, from the part that
// knows least: Journal, Registry, WorkerLives, Decisions; Directives, Queue, Planning, RestoredDatabase; Workers,
// MemberReports.
//
// Promises: after each call the open transaction has everything that the answer promises; the caller answers nobody before
// commit(). Messages of ended incarnations and of past generations change nothing. Work that is due by time alone is done in
// tick().
// Refuses, with a Refusal for the sender: requests that are stale, unknown, or wrong in the job's state. Throws StoreError
// where the store does.
// Thread: one, the owner. No HTTP in here.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "rendezvous/coordinator/clock.h"
#include "rendezvous/coordinator/decisions.h"
#include "rendezvous/coordinator/directives.h"
#include "rendezvous/coordinator/journal.h"
#include "rendezvous/coordinator/member_reports.h"
#include "rendezvous/coordinator/planning.h"
#include "rendezvous/coordinator/queue.h"
#include "rendezvous/coordinator/refusal.h"
#include "rendezvous/coordinator/registry.h"
#include "rendezvous/coordinator/restored_database.h"
#include "rendezvous/coordinator/state.h"
#include "rendezvous/coordinator/worker_lives.h"
#include "rendezvous/coordinator/workers.h"
#include "rendezvous/profile/book.h"
#include "rendezvous/store/job_store.h"

namespace holdfast::rendezvous {

// Counters of expensive work, for tests that bound the cost of a request.
struct CoordinatorWork {
  int64_t decisions = 0;   // each over all participants of a job
  int64_t directives = 0;  // each for one worker
  int64_t plans = 0;       // each over all workers and jobs
  bool operator==(const CoordinatorWork&) const = default;
};

class Coordinator {
 public:
  // Loads everything from the store. Every lease begins anew, with the grace period. `store` and `clock` outlive it.
  // `hears_workers`: false where they speak to another service, so that the store is all that is known of them; only questions
  // may be asked then.
  Coordinator(JobStore& store, const Clock& clock, std::function<std::string()> new_secret, LeaseTimes times,
              bool hears_workers = true);
  Coordinator(const Coordinator&) = delete;  // its parts refer to each other

  // --- workers
  OrRefusal<RegisterReply> register_worker(const RegisterRequest& request, const std::string& service_id) {
    return workers_.register_worker(request, service_id);
  }
  OrRefusal<StatusReply> report_status(const std::string& worker, const WorkerStatus& status, const DeviceLoad& load = {}) {
    return workers_.report_status(worker, status, load);
  }
  OrRefusal<void> begin_poll(const std::string& worker, const std::string& incarnation) {
    return workers_.begin_poll(worker, incarnation);
  }
  OrRefusal<void> report_lost(const WorkerLost& message) { return workers_.report_lost(message); }
  OrRefusal<void> drain(const std::string& worker) { return workers_.drain(worker); }
  OrRefusal<void> take_logs(const std::string& worker, const LogBatch& batch) { return workers_.take_logs(worker, batch); }

  // --- jobs
  // `after`: the id of a job that must have succeeded first.
  Job& submit(const JobSpec& spec, const std::vector<StateSource>& resume, const std::string& resume_note,
              const std::string& after = "");
  OrRefusal<void> stop(const std::string& job, bool checkpoint = true);
  OrRefusal<void> pause(const std::string& job);
  OrRefusal<void> resume(const std::string& job);
  struct Scale {
    int64_t min_nodes, nodes, max_nodes;
    int64_t replicas = 0;  // of a divided state; 0: as they are
  };
  OrRefusal<void> scale(const std::string& job, const Scale& wanted);
  // The plan that would be made if such a job were submitted now, as next_job_id(). Nothing is changed.
  Plan plan_with(const JobSpec& spec) { return planning_.plan_with(spec); }

  // Has the job's members record its next `steps` steps.
  OrRefusal<const Profile*> begin_profile(const std::string& job, int64_t steps);
  OrRefusal<void> take_profile_part(const std::string& job, ProfilePart part);

  // --- reports of a job's members
  OrRefusal<void> record_progress(const std::string& job, const Progress& m) { return reports_.record_progress(job, m); }
  OrRefusal<void> report_fault(const std::string& job, const FaultReport& m) { return reports_.report_fault(job, m); }
  OrRefusal<void> register_checkpoint(const std::string& job, const CheckpointRecord& record) {
    return reports_.register_checkpoint(job, record);
  }
  OrRefusal<void> record_event(const std::string& job, const WorkerEvent& m) { return reports_.record_event(job, m); }
  // Takes note that the checkpoint's manifest is no longer in the store.
  void checkpoint_removed(const std::string& job, int64_t step) { reports_.checkpoint_removed(job, step); }

  // Does the work that is due by time alone: leases, deadlines, retention. `hears`: false while this service may be cut off
  // from everybody, so that nobody's silence counts.
  void tick(bool hears = true);
  // Makes a new plan and carries it out, if something changed since the last call.
  void replan() { planning_.replan(); }
  bool commit() { return journal_.commit(); }  // whether there was anything

  // --- parts that the service uses by themselves
  Journal& journal() { return journal_; }
  RestoredDatabase& restored_database() { return restored_; }
  ProfileBook& profiles() { return profiles_; }

  // --- for views
  bool hears_workers() const { return hears_workers_; }
  const std::map<int64_t, std::unique_ptr<Job>>& jobs() const { return registry_.jobs(); }
  const Job* find_job(const std::string& id) const { return registry_.find_job(id); }
  std::string next_job_id() const { return registry_.next_job_id(); }  // the id of the next new job
  const std::map<std::string, Worker>& workers() const { return registry_.workers(); }
  // The workers whose directive may have changed, or whose life may have ended, since the last call; no others' did.
  std::set<std::string> take_workers_to_notify() { return registry_.take_touched(); }
  std::optional<Directive> news_for(const std::string& worker, const std::string& have) {
    return directives_.news_for(worker, have);
  }
  // The refusal for an incarnation that has ended; nothing for one that is alive or unknown.
  std::optional<Refusal> refusal_if_ended(const std::string& worker, const std::string& incarnation) const {
    return lives_.refusal_if_ended(worker, incarnation);
  }
  const RefusedWorker* refusal_of(const Job& job, const std::string& worker) const { return registry_.refusal_of(job, worker); }
  CoordinatorWork work() const { return {decisions_.made(), directives_.made(), planning_.made()}; }
  int64_t wall_ms() const { return registry_.wall_ms(); }

 private:
  OrRefusal<Job*> need_active_job(const std::string& id, const char* verb);
  void forget_old_records();
  void look_at_profile(const Job& job);

  Journal journal_;
  Registry registry_;
  WorkerLives lives_;
  Decisions decisions_;
  ProfileBook profiles_;
  Directives directives_;
  Queue queue_;
  Planning planning_;
  RestoredDatabase restored_;
  Workers workers_;
  MemberReports reports_;

  LeaseTimes times_;
  const bool hears_workers_;
  Millis last_tick_ms_ = -1, listening_since_ms_ = 0;
  Millis forgot_records_ms_ = 0;
  bool old_records_left_ = false;
};

}  // namespace holdfast::rendezvous
