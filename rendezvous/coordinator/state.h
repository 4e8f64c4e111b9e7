// A job and a worker as the coordinator keeps them: plain values.
//
// Times that end in _ms are of the steady clock where the type is Millis, and wall time since 1970 where it is int64_t.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/coordinator/mean_step_time.h"
#include "rendezvous/membership/held.h"
#include "rendezvous/protocol/labels.h"
#include "rendezvous/scheduler/schedule.h"
#include "rendezvous/store/job_store.h"

namespace holdfast::rendezvous {

// The time that a job has spent in state running, also before restarts of the service.
struct Runtime {
  int64_t ran_ms = 0;
  Millis counted_ms = -1;  // ran_ms includes the time up to here; -1: the job does not run
  // The values in the database, from which the next service goes on after a kill.
  int64_t saved_ran_ms = 0, saved_at_ms = 0;  // the second is wall time
  // The time during which the service was away. It counts once the generation that ran then has made a further step.
  int64_t away_ms = 0;

  void count(Millis now, bool runs_on) {
    if (counted_ms >= 0) ran_ms += std::max<int64_t>(0, now - counted_ms);
    counted_ms = runs_on ? now : -1;
  }
  void count_time_away() { ran_ms += std::exchange(away_ms, 0); }
};

// A worker that was refused is offered to the job again after a pause: its trouble may have passed, as that of a volume which
// was not mounted yet has.
struct RefusedWorker {
  RefusalRow row;
  int64_t times = 1;  // in a row, in one life of the worker; not kept
  Millis until_ms = 0;
};

struct Job {
  std::string id;
  int64_t number = 0;
  HeldMembership membership;
  int64_t submitted_ms = 0, started_ms = 0, finished_ms = 0;  // wall time; 0: not yet
  std::optional<double> loss, validation_loss;
  std::optional<StateDivision> division;  // of generation `divided_in`
  int64_t divided_in = 0;
  int64_t copies_told = -1;  // the copies of each part that the last event on it told of; -1: as many as are wanted
  std::string state_hash;
  int64_t state_hash_step = -1;
  int64_t refused_steps = 0;  // over the whole life, voided steps included
  MeanStepTime step_time;
  std::map<int64_t, CheckpointRecord> checkpoints;  // by step
  std::map<std::string, RefusedWorker> refusals;    // by worker
  std::optional<Shortage> shortage;                 // of workers, by the last plan
  std::optional<Millis> lacks_since_ms;             // since when it lacks workers and has not trained; none: it does not
  int64_t lacks_since_wall_ms = 0;                  // the same as wall time; 0: it does not
  int64_t preemptible_at_ms = 0;                    // wall time of KeptMembership::preemptible_ms
  std::string after;                                // the job that must succeed before this one begins; "": none
  bool after_done = false;                          // whether it has succeeded
  int64_t retry_at_ms = 0, retry_delay_ms = 0;      // wall time of the next try; how long that pause was planned to be
  Runtime runtime;
  JobRow saved;  // the row in the store

  void forget_shortage() {
    lacks_since_ms.reset();
    lacks_since_wall_ms = 0;
  }
};

struct Worker {
  enum class Life { kAlive, kLost, kLeft };
  RegisterRequest registration;
  Life life = Life::kAlive;
  bool draining = false;
  WorkerStatus status;
  DeviceLoad load;  // of the newest status
  Millis heard_ms = 0, lease_until_ms = 0;
  std::string job, last_job;     // "" for none
  int64_t after_generation = 0;  // of `job`
  int64_t lost_generation = 0;   // of a lost worker: the generation of `last_job` at that time
  int64_t seen_ms = 0;           // wall time
  // Whether the worker has reported a status since it registered, or since the service started. Before that it gets no
  // directive, because it may know more than the database.
  bool spoke = false;
  // It was told to be idle, and has not said since that it is: a state that it speaks of may be a late message's.
  bool idle_told = false;
  LossRecord losses;
  int64_t log_batch = 0;           // number of the newest batch that was taken from this incarnation
  std::string lost_job = {};       // that it was in when it was lost; "": none, or before the service began
  bool end_told = false;           // its supervisor has said how its process ended
  std::optional<Millis> freed_ms;  // when its last job let go of it; none: not since it registered
  std::string tag;                 // of its directive; "": not computed yet

  bool leaving() const { return draining || status.leaving; }
  bool has_no_job() const { return status.phase == Phase::kIdle && status.job.empty(); }  // by its own account
};

}  // namespace holdfast::rendezvous
