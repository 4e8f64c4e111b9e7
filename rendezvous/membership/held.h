// A job's membership as the service holds it: everybody may read it, and only decisions change it.
//
// Promises: nothing outside the functions below can change what is held, and the compiler sees to that. So the simulator and
// the stories see every change as an input of decide(). Thread: the owner of the job.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "rendezvous/membership/decide.h"

namespace holdfast::rendezvous {

struct NewJob {
  std::string job;
  int64_t born = 0;
  JobSpec spec;
  std::vector<StateSource> resume;  // newest first
};
// A worker that the database has as one of the job's.
struct KeptWorker {
  Member member;
  std::string numerics;
  int64_t after_generation = 0;
  bool draining = false;
};

class HeldMembership {
 public:
  HeldMembership() = default;  // of no job

  const JobMembership& operator*() const { return state_; }
  const JobMembership* operator->() const { return &state_; }
  operator const JobMembership&() const { return state_; }  // NOLINT(google-explicit-constructor): it is read as what it holds

 private:
  explicit HeldMembership(JobMembership state) : state_(std::move(state)) {}
  friend HeldMembership begin_membership(const NewJob& job, Millis now);
  friend HeldMembership restore_membership(KeptMembership kept, const std::vector<KeptWorker>& workers, Millis now);
  friend std::vector<Effect> decide(HeldMembership& held, const Input& input, Millis now,
                                    const std::function<std::string()>& new_secret);
  friend bool take_heartbeat(HeldMembership& held, const WorkerReported& report, Millis now);
  friend std::vector<std::string> workers_to_notify(HeldMembership& held);

  JobMembership state_;
};

// The membership of a job that was just submitted.
HeldMembership begin_membership(const NewJob& job, Millis now);
// The membership of a job of which the database keeps this, after the service was started.
HeldMembership restore_membership(KeptMembership kept, const std::vector<KeptWorker>& workers, Millis now);

// The functions of decide.h, for what is held. decide() leaves the new state there and returns the effects.
std::vector<Effect> decide(HeldMembership& held, const Input& input, Millis now,
                           const std::function<std::string()>& new_secret);
bool take_heartbeat(HeldMembership& held, const WorkerReported& report, Millis now);
std::vector<std::string> workers_to_notify(HeldMembership& held);

}  // namespace holdfast::rendezvous
