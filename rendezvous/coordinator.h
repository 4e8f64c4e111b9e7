// All of the service's knowledge: jobs and workers. Runs the pure parts (membership, scheduler) and makes durable what
// they decide, in the order in which they decide it.
//
// Promises: after each call the store holds, in the open transaction, everything that the answer promises; nobody is to
// be answered before commit(). Messages of ended incarnations and of past generations change nothing. A heartbeat that says
// nothing new costs the same at any number of workers; what is due by time alone is done in tick().
// Refuses, with a problem for the sender: what is stale, unknown, or wrong in the job's state.
// Thread: one, the owner. No HTTP in here.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

#include "rendezvous/clock.h"
#include "rendezvous/job_store.h"
#include "rendezvous/membership.h"
#include "rendezvous/protocol/labels.h"
#include "rendezvous/scheduler.h"

namespace holdfast::rendezvous {

template <typename T>
using Outcome = tl::expected<T, Problem>;

// How long a job was in state running, over restarts of the service too.
struct Runtime {
  int64_t ran_ms = 0;
  Millis counted_ms = -1;  // up to when, while it runs
  // As last written down: what a service that is killed knows again. The time that it is away counts once the generation that
  // ran then has made a further step.
  int64_t saved_ran_ms = 0, saved_at_ms = 0;  // wall time
  int64_t away_ms = 0;                        // such time, not counted yet
};

struct Job {
  std::string id;
  int64_t number = 0;
  JobMembership membership;
  int64_t submitted_ms = 0, started_ms = 0, finished_ms = 0;  // wall time; 0: not yet
  std::optional<double> loss, validation_loss;
  std::string state_hash;
  int64_t state_hash_step = -1;
  int64_t refused_steps = 0;                        // in all its life, those that were voided since included
  double step_s = 0;                                // of the last steps, smoothed; 0: not known
  double communication_s = 0;                       // of it, waiting for others; smoothed
  std::map<int64_t, CheckpointRecord> checkpoints;  // by step
  std::map<std::string, RefusalRow> refusals;       // by worker
  std::optional<Shortage> shortage;                 // of workers, by the last plan
  std::optional<Millis> lacks_since_ms;             // workers, and has not trained since
  int64_t lacks_since_wall_ms = 0;                  // the same as wall time; 0: it does not
  int64_t preemptible_at_ms = 0;                    // wall time of JobMembership::preemptible_ms
  std::string after;                                // the job that must have succeeded before this one begins, and
  bool after_done = false;                          // whether it has
  int64_t retry_at_ms = 0, retry_delay_ms = 0;      // wall time, begins again then; how long that was planned to be
  Runtime runtime;
  JobRow saved;  // what the store has
};

struct Worker {
  enum class Life { kAlive, kLost, kLeft };
  RegisterRequest registration;
  Life life = Life::kAlive;
  bool draining = false;
  WorkerStatus status;
  Millis heard_ms = 0, lease_until_ms = 0;
  std::string job, last_job;     // "" for none
  int64_t after_generation = 0;  // of `job`
  int64_t lost_generation = 0;   // lost: the generation that `last_job` was at then
  int64_t seen_ms = 0;           // wall time
  bool spoke = false;            // reported a status since it registered or the service started: until then it is told nothing
  LossRecord losses;
  int64_t log_batch = 0;  // the newest that was taken of this incarnation
  std::string tag;        // of its directive; "": to be made anew

  bool leaving() const { return draining || status.leaving; }
  bool has_no_job() const { return status.phase == Phase::kIdle && status.job.empty(); }  // by its own account
};

struct LeaseTimes {
  int64_t heartbeat_ms = 1000, lease_ms = 3000;
  int64_t grace_ms = 10000;  // after a start of the service
};

// What was done so far, by kind: what a request costs beside a look into a few tables.
struct CoordinatorWork {
  int64_t decisions = 0;   // of a job, over its participants
  int64_t directives = 0;  // made, of one worker
  int64_t plans = 0;       // over all workers and jobs
  bool operator==(const CoordinatorWork&) const = default;
};

struct StateChange {
  std::string job;
  JobState from, to;
  std::string reason;
  int64_t time_ms = 0;
};

class Coordinator {
 public:
  // Loads everything from the store. All leases begin anew, with the grace period.
  Coordinator(JobStore& store, const Clock& clock, std::function<std::string()> new_secret, LeaseTimes times);

  // --- workers
  Outcome<RegisterReply> register_worker(const RegisterRequest& request, const std::string& service_id);
  Outcome<StatusReply> report_status(const std::string& worker, const WorkerStatus& status);
  // It begins to wait for news.
  Outcome<void> polled(const std::string& worker, const std::string& incarnation);
  Outcome<void> worker_lost(const WorkerLost& message);
  Outcome<void> drain(const std::string& worker);
  Outcome<void> logs(const std::string& worker, const LogBatch& batch);

  // --- jobs
  // `after`: the id of a job that must have succeeded first.
  Job& submit(const JobSpec& spec, const std::vector<StateSource>& resume, const std::string& resume_note,
              const std::string& after = "");
  Outcome<void> stop(const std::string& job);
  Outcome<void> pause(const std::string& job);
  Outcome<void> resume(const std::string& job);
  struct Scale {
    int64_t min_nodes, nodes, max_nodes;
  };
  Outcome<void> scale(const std::string& job, const Scale& wanted);

  // The plan if such a job were submitted now, as next_job_id(); nothing of it is done.
  Plan plan_with(const JobSpec& spec);

  // --- what members of a job report
  Outcome<void> progress(const std::string& job, const Progress& progress);
  Outcome<void> fault(const std::string& job, const FaultReport& report);
  Outcome<void> checkpoint(const std::string& job, const CheckpointRecord& record);
  // Its manifest is no longer in the store.
  void checkpoint_removed(const std::string& job, int64_t step);
  Outcome<void> worker_event(const std::string& job, const WorkerEvent& event);

  // Time's own doing: leases, deadlines. And the scheduler's wishes, which follow from what happened since the last settle().
  void tick();
  void settle();
  void commit();

  // --- for views
  const std::map<int64_t, std::unique_ptr<Job>>& jobs() const { return jobs_; }
  const Job* find_job(const std::string& id) const;
  std::string next_job_id() const;  // of the job that is submitted next
  // Checkpoints of a job that is not known are there: no other is called so.
  void note_stray_folder(const std::string& job, const std::string& folder, bool empty);
  // Manifests on disk that the database does not know; those of a generation that it does not know either are taken into it,
  // and where it was `restored` from a copy those of any.
  void note_found_checkpoints(const std::string& job, const std::vector<CheckpointRecord>& found, bool restored);
  const std::map<std::string, Worker>& workers() const { return workers_; }
  // The workers since the last call whose directive may have changed, or whose life may have ended; nobody else's did.
  std::set<std::string> take_touched() { return std::exchange(touched_, {}); }
  // The directive of one that is alive, unless it has it: `have` is its tag. Nothing before it has said what it does: it may
  // know more than the database.
  std::optional<Directive> news_for(const std::string& worker, const std::string& have);
  // What an incarnation that is over is to be told; nothing for one that lives, or that nobody knows.
  std::optional<Problem> ended(const std::string& worker, const std::string& incarnation) const;
  // The refusal of the worker by this job that is in force: it was of the worker's present incarnation.
  const RefusalRow* refusal_of(const Job& job, const std::string& worker) const;
  JobStore& store() { return store_; }
  JobStore& write();  // begins the transaction when none is open
  void event(const std::string& job, const std::string& kind, const std::string& message, const std::string& worker = "",
             int64_t generation = 0);
  // The name of the token in whose name the next calls are made: events tell it. "": nobody's.
  void set_actor(const std::string& actor) { actor_ = actor; }
  // Of jobs, since the last call, in the order in which they came about.
  std::vector<StateChange> take_state_changes() { return std::exchange(state_changes_, {}); }
  const std::map<std::string, int64_t>& event_counts() const { return event_counts_; }  // by kind, since this object began
  int64_t writes() const { return writes_; }                                            // grows with every transaction
  const CoordinatorWork& work() const { return work_; }
  // Of a job that failed and waits for its next try: for how long; 0: not at all.
  int64_t retry_in_ms(const Job& job) const;
  // It waits for the job that it is to come after.
  static bool is_held_by_another(const Job& job) { return !job.after.empty() && !job.after_done; }
  Millis now() const { return clock_.steady_ms(); }
  int64_t wall_ms() const { return clock_.wall_ms(); }

 private:
  friend struct EffectWriter;

  void load();
  void restore_job(const JobRow& row);
  void restore_worker(const WorkerRow& row);
  void apply(Job& job, const Input& input);
  void save(Job& job);
  void save(Worker& worker);
  Job* job_of(const std::string& id);
  Outcome<Job*> need_job(const std::string& id);
  Outcome<Job*> need_active_job(const std::string& id, const char* verb);
  Outcome<Worker*> need_worker(const std::string& id, const std::string& incarnation);
  Outcome<Job*> need_present(const std::string& id, const std::string& worker, const std::string& incarnation,
                             int64_t generation, bool rank0);
  void heard(Worker& worker, Millis lease_ms);
  void take_last_words(const Worker& worker, const std::vector<std::string>& lines);
  void begin_life(Worker& worker, const RegisterRequest& request);
  void end_life(Worker& worker, Worker::Life life, const std::string& reason);
  void write_off(Worker& worker, Worker::Life life, const std::string& reason, int64_t generation);
  void outlive(const Outlived& silent, int64_t last_generation);
  void forbid(const std::string& worker, const std::string& incarnation, const std::string& code);
  Outcome<void> welcome_back(Worker& worker);
  void notice_newer(Worker& worker);
  void note_unknown_job(const Worker& worker);
  void reserve_number_of(const std::string& job);
  int64_t next_job_number() const;
  void touch(const std::string& worker);
  Directive directive_of(const std::string& worker);
  const std::string& tag_of(Worker& worker);
  void assign(Worker& worker, Job& job, bool more_follow = false);
  void free_worker(const std::string& worker, const std::string& job, const std::string& reason);
  void expire_leases();
  void forget_old_workers();
  void forget_old_records();
  bool reschedule();
  // coordinator_queue.cpp
  std::string queueing_text(const Job& job) const;
  void restore_queueing(Job& job, const std::string& text);
  void count_runtime(Job& job);
  void count_time_away(Job& job, const Progress& progress);
  void end_overlong(Job& job);
  void follow_predecessors();
  void begin_after(Job& job, const Job& first);
  bool may_begin(const Job& job) const;
  void show_to_planner(const Job& job, SchedulableJob& planned);
  WorkerSet who_do_not_satisfy(const Labels& requirements);
  WorkerSet who_compute_otherwise(const std::string& numerics);
  // coordinator_plan.cpp
  std::vector<SchedulableJob> jobs_to_plan();
  std::vector<SchedulableWorker> workers_to_plan() const;
  bool carry_out(const Plan& plan);
  void note_shortage(Job& job, const Plan& plan);
  static void forget_shortage(Job& job);
  bool withdraw_preemptions();
  Millis next_change_ms() const;
  void add_steps(Job& job, const Progress& progress);
  void note_late_fault(const std::string& job, const FaultReport& report);

  JobStore& store_;
  const Clock& clock_;
  std::function<std::string()> new_secret_;
  LeaseTimes times_;
  bool in_transaction_ = false;
  int64_t writes_ = 0;
  CoordinatorWork work_;
  std::string actor_;
  std::map<std::string, int64_t> event_counts_;
  std::vector<StateChange> state_changes_;
  std::set<std::string> touched_;
  bool unsettled_ = true;                    // the plan may be another than the last
  Millis next_plan_ms_ = 0;                  // by then, if nothing changes before
  std::map<Labels, WorkerSet> unfit_;        // by what is required: those that do not satisfy it
  std::map<std::string, WorkerSet> unlike_;  // by numerics: those that have others
  Millis last_tick_ms_ = -1, listening_since_ms_ = 0, forgot_ms_ = 0;
  Millis forgot_records_ms_ = 0;
  bool old_records_left_ = false;
  int64_t reserved_number_ = 0;         // jobs up to this were there once, whatever the database knows: none is called so again
  std::set<std::string> unknown_jobs_;  // that workers spoke of, each told of once
  std::map<int64_t, std::unique_ptr<Job>> jobs_;  // by number
  std::map<std::string, Job*> jobs_by_id_;
  std::map<int64_t, Job*> live_;  // by number: those that have not ended, and some that ended since the last tick
  std::map<std::string, Worker> workers_;
  std::map<std::string, std::string> ended_incarnations_;
};

// Whether resume_from is the job that `spec` comes after, whose id is `predecessor`, and leaves the step open.
bool resumes_from(const JobSpec& spec, const std::string& predecessor);

// Problems in this service's words.
Problem problem(int status, const std::string& code, const std::string& detail);
Problem no_such_job(const std::string& id);

}  // namespace holdfast::rendezvous
