// The train thread of a process: prepares, takes part in generations, releases, one at a time, as worker/process/job_runner.cpp
// and worker/step/train_loop.cpp do, with hash chains for states and the real rules for shares and for what ranks agree on.
//
// The order within a step is the real one: compute, exchange, reduce, apply, confirm; each collective may fail at any rank.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/sim/checkpoints.h"
#include "tests/sim/surroundings.h"
#include "tests/sim/training/model_state.h"
#include "tests/sim/training/ring.h"
#include "worker/process/lifecycle.h"
#include "worker/step/load_balancer.h"

namespace holdfast::sim {

class Process;

constexpr int64_t kDataTokens = 1000;  // of everybody's training data

class TrainThread {
 public:
  TrainThread(Surroundings& around, Process& process);

  void start(const worker::StartPrepare& task);
  void start(const worker::StartRun& task);
  void start(const worker::StartRelease& task);
  void ask(const worker::AskYield& request);
  void interrupt(const std::string& reason);
  void vanish();  // the process was killed: its connections close

  bool in_ring() const { return ring_ != nullptr; }
  const rendezvous::Directive& join() const { return join_; }
  const std::optional<ModelState>& state() const { return state_; }
  int64_t held_step() const { return state_ ? state_->step : -1; }

 private:
  struct Stop {
    std::string reason;
    std::string fault;  // "" for none
    int suspect_rank = -1;
    int64_t checkpoint_step = -1;
    int64_t superseded_by = 0;
    bool state_is_wrong = false;  // the others' states agree, and this one does not
  };
  void begin_task();
  void after(int64_t ms, void (TrainThread::*next)());
  void gather(Piece piece, int64_t timeout_ms, std::function<void(const std::vector<Piece>&)> next);
  void report_fault(const Stop& stop);
  void stop(const Stop& stop);
  void stop_unwritten(int64_t step);
  void stop_interrupted() { stop({.reason = interrupt_, .fault = {}}); }

  // train_thread_join.cpp: from a join to the first step
  void acquire_state();
  void read_checkpoint();
  void rank0_has_read(const std::vector<Piece>& pieces);
  void offer_state();
  void choose_donor(const std::vector<Piece>& pieces);
  void take_state(const std::vector<Piece>& pieces);
  void agreed_on_state();
  void agree_on_shares(const std::vector<Piece>& pieces);

  // train_thread_divided.h: a state that is divided among the ranks
  class Divided;

  // train_thread_step.cpp
  void begin_step();
  void compute_next();
  void exchange(const std::vector<Piece>& pieces);
  void apply(const std::vector<Piece>& pieces);
  void leave_out();
  void applied();
  void confirmed(const std::vector<Piece>& pieces);
  void compare_once(std::function<void()> next);
  void compared(const std::vector<Piece>& pieces);
  void yield_now();
  void finish_job();
  void write_now(int64_t deadline_ms, std::function<void(const std::string&)> then);
  void wait_until_told();
  rendezvous::StepPoint point_of_step() const;

  Surroundings& around_;
  Process& process_;
  int64_t task_ = 0;  // counts tasks: what was planned for an older one does nothing
  bool busy_ = false;
  int64_t waits_ = 0;     // counts collectives
  bool waiting_ = false;  // in the last of them
  bool interrupted_ = false;
  std::string interrupt_;
  bool yield_ = false, checkpoint_ = false, leaving_ = false, released_ = false;

  // of the job held
  std::string job_;
  rendezvous::JobSpec spec_;
  std::optional<ModelState> state_;
  int64_t refused_in_row_ = 0;
  std::shared_ptr<Divided> divided_;
  struct Kept {  // GradientAccumulator: finished microbatches of the step that follows the state `bits`
    uint64_t bits = 0;
    worker::Microbatches microbatches;
  } kept_;

  // of the generation
  rendezvous::Directive join_;
  Ring* ring_ = nullptr;
  worker::StepShares shares_;
  std::optional<worker::LoadBalancer> balancer_;
  int64_t step_began_ms_ = 0;
  int64_t slow_steps_ = 0;  // in a row, that this host's slowness lasts in this generation
  size_t next_microbatch_ = 0;
  bool told_of_loss_ = false;
  int64_t compared_ = -1;  // the step after which the ranks' states were compared last
  std::function<void()> after_comparison_;
  bool memory_went_bad_ = false;  // the state was altered, and no comparison has found it yet
  bool unconfirmed_ = false;      // a step is applied here, and nobody has said yet that all have it
  worker::StepAgreement agreed_;
  int donor_ = 0;
  std::vector<Piece> offers_;
};

}  // namespace holdfast::sim
