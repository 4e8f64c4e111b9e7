// The rules that must hold, whatever happens: asked after each thing that the service or a worker does. A broken one is a
// Violation.
//
// The rules keep books of their own (who was told what, who applied which step, which lives are over) and compare them with
// what the service has on disk; they take nobody's word. README.md lists them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "rendezvous/coordinator/coordinator.h"
#include "tests/sim/memory_store.h"
#include "tests/sim/rules/bad_memory.h"
#include "tests/sim/rules/divided_states.h"
#include "tests/sim/rules/heard.h"
#include "tests/sim/service_process.h"
#include "tests/sim/training/model_state.h"
#include "tests/sim/violation.h"
#include "worker/step/shares.h"

namespace holdfast::sim {

class CheckpointDisk;
class Host;
class Process;

class Rules {
 public:
  BadMemory bad_memory;
  DividedStates divided_states;

  Rules(const Timeline& time, const MemoryStore& store) : time_(time), store_(store) {}

  void watch(const std::vector<std::unique_ptr<Host>>& hosts) { hosts_ = &hosts; }
  // `not_finite`: the steps whose gradient is not.
  void knows(const std::string& job, const rendezvous::JobSpec& spec, const std::set<int64_t>& not_finite) {
    specs_[job] = spec;
    not_finite_[job] = not_finite;
  }
  // The service's database was replaced by an older copy, in between two lives of it.
  void database_restored();
  void service_troubled() { service_troubled_ms_ = time_.now(); }

  // --- the service
  void before_request(const rendezvous::Coordinator& service);
  void after_request(const rendezvous::Coordinator& service, const Request& request, const Response& response);
  void committed(const rendezvous::Coordinator& service);  // after each turn, before anybody is answered
  void answered(const Response& response);
  void turn_lost();  // the service died before it answered

  void scaled(const std::string& job, const rendezvous::Coordinator::Scale& wanted) { scaled_.insert_or_assign(job, wanted); }

  // --- workers
  void joins(const Process& process, const rendezvous::Directive& join);
  void ring_formed(const rendezvous::Directive& join);
  void goes_on_from(const Process& process, const rendezvous::Directive& join, const ModelState& state);
  void applied(const Process& process, const rendezvous::Directive& join, const ModelState& state,
               const worker::StepShares& shares);
  // The worker has been slower than the others for long.
  void is_slow(const Process& process, const rendezvous::Directive& join, const worker::StepShares& shares) const;
  void status_sent(const Process& process, const rendezvous::WorkerStatus& status);
  // A checkpoint is registered although the service may not have the records of the steps up to it: a state is worth more.
  void records_given_up(const std::string& job, int64_t step) { given_up_[job] = std::max(given_up_[job], step); }
  void checkpoint_unreadable(const rendezvous::Directive& join, const std::string& reason);

  // --- the end of a job that was let alone at last
  void succeeded(const std::string& job, const CheckpointDisk& disk);
  void failed(const std::string& job) const;

 private:
  struct JobView {  // the part of a job that a message which does not count may not change
    int64_t committed_step, generation, checkpoints, lineage;
    rendezvous::JobState state;
    rendezvous::Stage stage;
    bool operator==(const JobView&) const = default;
  };
  struct Told {  // of one generation, as a directive carried it
    std::string secret;
    std::vector<rendezvous::Member> members;
    rendezvous::StateSource source;
    bool operator==(const Told&) const = default;
  };
  struct Promise {  // an answer's words, to be found on disk before it leaves
    std::string text;
    std::function<bool(const Tables&)> kept;
  };
  struct Past {  // of a job, as of the last commit
    int64_t committed_step = 0, generation = 0;
    bool restored = false;  // the database is older than committed_step
  };
  struct Secret {  // of a generation's number
    std::string secret;
    int64_t database = 0;
  };

  void judge_message(const rendezvous::Coordinator& service, const JobMessage& message, const Response& response);
  void judge_worker(const std::string& incarnation, const Response& response);
  void check_ledger(const std::string& job, const rendezvous::JobRow& row) const;
  void check_steps(const std::string& job) const;
  void check_not_to_fail(const std::string& job) const;
  void check_kept(const rendezvous::Coordinator& service);
  void check_beginning(const std::string& job) const;
  int64_t begins_at(const std::string& job) const;
  void check_preemptions(const rendezvous::Coordinator& service);
  void check_attribution(const std::string& job, int64_t step, const ModelState& last) const;
  void went_back(const rendezvous::Coordinator& service, const std::string& job, int64_t from, int64_t to, bool restored) const;
  void check_job(const rendezvous::Coordinator& service, const std::string& job, const rendezvous::JobRow& row);
  void check_begins_after(const std::string& job, const rendezvous::Generation& first) const;
  void check_number(const std::string& job, int64_t generation);
  // Whether the database has this very generation, and not another one under its number.
  bool is_known(const rendezvous::Directive& join) const;
  bool is_void(const std::string& job, const ModelState& state, int64_t generation) const;
  const ModelState& right_state(const std::string& job, int64_t step);
  int64_t microbatches(const std::string& job) const { return specs_.at(job).microbatches(); }

  const Timeline& time_;
  const MemoryStore& store_;
  const std::vector<std::unique_ptr<Host>>* hosts_ = nullptr;
  int64_t service_troubled_ms_ = 0;
  std::map<std::string, rendezvous::JobSpec> specs_;
  std::map<std::string, std::set<int64_t>> not_finite_;  // by job
  std::map<std::string, JobView> before_;
  std::map<std::string, rendezvous::Generation> current_before_;
  std::vector<Promise> promises_;
  std::map<std::string, Past> past_;
  std::map<std::string, rendezvous::Coordinator::Scale> scaled_;  // by job: what was asked for in the turn under way
  std::map<std::string, int64_t> preemptions_;                    // by job, as of the last commit
  std::set<std::string> over_, over_soon_;   // incarnations whose end the service has on disk; those of the turn under way
  std::map<std::string, int64_t> given_up_;  // by job: up to this step records may be missing
  std::map<std::tuple<std::string, int64_t, std::string>, Told> told_;  // by job, generation, secret
  std::map<std::pair<std::string, int64_t>, Secret> secrets_;           // by job and generation
  int64_t database_ = 0;                                                // counts those that were put back
  HeardGenerations heard_;
  std::map<std::string, int64_t> lost_history_to_;  // by job: a state that the database forgot was taken up in this generation
  std::map<std::string, int64_t> unknown_to_;       // by job: up to this step the database may lack who did it
  std::map<std::pair<std::string, std::string>, int64_t> fenced_;   // (incarnation, job) -> the highest fence it told of
  std::set<std::tuple<std::string, std::string, int64_t>> joined_;  // (incarnation, job, generation)
  std::map<std::string, std::vector<ModelState>> right_;            // by job: what nobody's disturbance may change
  struct Dealt {
    std::vector<rendezvous::Member> members;
    std::vector<worker::Microbatches> own;
  };
  std::map<std::tuple<std::string, int64_t, int64_t>, Dealt> dealt_;  // (job, generation, step) -> who computed what
};

}  // namespace holdfast::sim
