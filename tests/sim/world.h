// One simulated run: a service, some hosts, one to three jobs, a time of faults and a time of peace, all from one seed.
//
// Promises: the same seed gives the same run. `run` returns when every job has ended and every worker is idle, and throws a
// Violation when a rule is broken or that does not come about within kPeaceMs of the last fault.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/sim/checkpoints.h"
#include "tests/sim/host.h"
#include "tests/sim/memory_store.h"
#include "tests/sim/network.h"
#include "tests/sim/rules/rules.h"
#include "tests/sim/service_process.h"
#include "tests/sim/surroundings.h"
#include "tests/sim/training/ring.h"

namespace holdfast::sim {

struct Tally {  // of one run or many
  int64_t events = 0, faults = 0, generations = 0, voided = 0, simulated_ms = 0, preemptions = 0;
};

class World {
 public:
  World(uint64_t seed, bool trace);

  Tally run();

 private:
  static constexpr int64_t kPeaceMs = 240'000;  // a bound on everything that waits: back-offs, leases, deadlines

  void submit_jobs();
  void resume_from_predecessor(rendezvous::JobSpec& spec, const rendezvous::JobSpec& first);
  void spoil_steps(const std::string& job, rendezvous::JobSpec& spec, int64_t begins_at);
  void submit(const rendezvous::JobSpec& spec, size_t before);
  void faults_until(int64_t ms);
  void make_peace();
  void operate(bool patient);
  bool settled() const;
  void step_to(int64_t ms);
  void judge_end();

  // faults.cpp
  using Fault = void (World::*)();
  struct Kind {
    int64_t weight;
    Fault fault;
  };
  static const std::vector<Kind>& kinds();
  void choose_kinds();
  Host& any_host() { return *chance_.of(hosts_); }
  void kill_process();
  void kill_node();
  void freeze();
  void cut_from_service();
  void cut_from_peers();
  void told_to_end();
  void drain();
  void kill_service();
  void freeze_service();
  void break_disk();
  void fill_disk();
  void spoil_weather();
  void pause_and_resume();
  void scale();
  void scale_to(rendezvous::Coordinator& service, const std::string& job, const rendezvous::Coordinator::Scale& wanted);
  void remove_checkpoint();
  void part_two();
  void slow_down();
  void spoil_host();
  void copy_database();
  void restore_database();
  void restore_at_an_end();
  void await_an_end(int64_t until_ms);
  bool is_ending() const;
  void service_back(int64_t ms);

  Timeline time_;
  Chance chance_;
  Story story_;
  MemoryStore store_;
  Rules rules_;
  ServiceProcess service_;
  Network network_;
  Rings rings_;
  CheckpointDisk disk_;
  NotFinite not_finite_;
  Surroundings around_;
  std::vector<std::unique_ptr<Host>> hosts_;
  std::vector<std::string> jobs_;
  std::vector<Fault> chosen_;
  Host* bad_reader_ = nullptr;  // the one host that cannot always read what is right; null: none yet
  std::optional<Tables> copy_;  // of the service's database
  bool peace_ = false;
  Tally tally_;
};

}  // namespace holdfast::sim
