// One life of a training process: the real lifecycle machine, with simulated threads around it, and what can happen to it.
//
// Frozen (SIGSTOP), nothing in it runs; what arrives meanwhile is there in a burst when it is thawed. Killed, nothing of it
// ever runs again. Processes are kept until the world ends, so that late events find a dead one rather than none.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "tests/sim/checkpoints.h"
#include "tests/sim/service_client.h"
#include "tests/sim/surroundings.h"
#include "tests/sim/training/progress_reports.h"
#include "tests/sim/training/train_thread.h"
#include "worker/link/exit_codes.h"
#include "worker/process/lifecycle.h"

namespace holdfast::sim {

class Host;

class Process {
 public:
  Process(Surroundings& around, Host& host, const std::string& incarnation);

  void start();
  void kill();
  void freeze();
  void thaw();
  void terminate();  // SIGTERM
  void end(worker::ExitCode code, const std::string& why);

  // One input for the lifecycle; its commands are carried out before the next.
  void feed(const worker::Input& input);

  void later(int64_t ms, std::function<void()> what);
  void run(std::function<void()> what);  // now, or once it is thawed, or never

  bool alive() const { return alive_; }
  bool frozen() const { return frozen_; }
  bool cut_from_peers() const;
  Host& host() { return host_; }
  const std::string& name() const;
  const std::string& incarnation() const { return incarnation_; }
  const worker::Lifecycle& lifecycle() const { return lifecycle_; }
  Surroundings& around() { return around_; }
  // Whether it holds a state of `job`.
  bool holds(const std::string& job) const { return lifecycle_.job == job && train_.state().has_value(); }
  const std::optional<ModelState>& state() const { return train_.state(); }
  TrainThread& train() { return train_; }
  ProgressReports& reports() { return reports_; }
  Checkpoints& checkpoints() { return checkpoints_; }
  ServiceClient& client() { return client_; }

 private:
  void carry_out(const worker::StartPrepare& command);
  void carry_out(const worker::StartRun& command);
  void carry_out(const worker::StartRelease& command);
  void carry_out(const worker::RecordProfile&) {}
  void carry_out(const worker::AskYield& command);
  void carry_out(const worker::InterruptTrain& command);
  void carry_out(const worker::ExitProcess& command);
  void watch_grace();

  Surroundings& around_;
  Host& host_;
  std::string incarnation_;
  bool alive_ = true, frozen_ = false;
  std::deque<std::function<void()>> held_;  // while frozen
  worker::Lifecycle lifecycle_;
  int64_t grace_ = 0;  // counts the waits for a termination to be granted; 0: none
  ServiceClient client_;
  ProgressReports reports_;
  Checkpoints checkpoints_;
  TrainThread train_;
};

}  // namespace holdfast::sim
