#include "tests/sim/training/train_thread.h"
#include "tests/sim/training/train_thread_divided.h"

#include <utility>

#include "tests/sim/process.h"
#include "tests/sim/rules/rules.h"
#include "tests/sim/violation.h"
#include "worker/link/fault_reports.h"

namespace holdfast::sim {

using rendezvous::StateSource;

namespace {

constexpr int64_t kQuietMs = 600;

}  // namespace

TrainThread::TrainThread(Surroundings& around, Process& process)
    : around_(around), process_(process), divided_(std::make_shared<Divided>(*this)) {}

void TrainThread::begin_task() {
  if (busy_) throw Violation(process_.name() + "'s train thread is given a task while it is at another");
  busy_ = true;
  interrupted_ = yield_ = checkpoint_ = leaving_ = released_ = false;
  interrupt_.clear();
  ++task_;
}

void TrainThread::after(int64_t ms, void (TrainThread::*next)()) {
  process_.later(ms, [this, next, task = task_] {
    if (task == task_) (this->*next)();
  });
}

void TrainThread::gather(Piece piece, int64_t timeout_ms, std::function<void(const std::vector<Piece>&)> next) {
  if (interrupted_) return stop_interrupted();
  ++waits_;
  waiting_ = true;
  if (timeout_ms >= 0 && ring_->size() > 1)
    process_.later(kQuietMs, [this, task = task_, wait = waits_] {
      if (task != task_ || wait != waits_ || !waiting_) return;
      // Nothing comes from it: the service is to ask whether it lives.
      report_fault({.reason = fmt::format("no bytes moved for {} ms", kQuietMs),
                    .fault = "silent",
                    .suspect_rank = (join_.rank + ring_->size() - 1) % ring_->size()});
    });
  ring_->gather(
      join_.rank, process_, std::move(piece), timeout_ms,
      [this, next = std::move(next), task = task_](const Gathered& gathered) {
        if (task != task_) return;
        waiting_ = false;
        if (interrupted_) return stop_interrupted();
        if (!gathered)
          return stop(
              {.reason = gathered.error().kind, .fault = gathered.error().kind, .suspect_rank = gathered.error().suspect_rank});
        const Pieces pieces = *gathered;
        next(*pieces);
      });
}

void TrainThread::start(const worker::StartPrepare& task) {
  begin_task();
  process_.checkpoints().drop();
  process_.reports().forget();
  divided_->hold_nothing();
  refused_in_row_ = 0;
  job_ = task.job;
  spec_ = task.spec.with_steps_over(kDataTokens);
  const int64_t ms = around_.chance.percent(10) ? around_.chance.between(1000, 4000) : around_.chance.between(20, 300);
  process_.later(ms, [this] {
    using How = worker::PrepareEnded::How;
    busy_ = false;
    if (interrupted_) return process_.feed(worker::PrepareEnded{How::kInterrupted, interrupt_, {}, 0});
    process_.checkpoints().open(job_, spec_.keep_last);
    process_.feed(worker::PrepareEnded{How::kPrepared, {}, "data", kDataTokens});
  });
}

void TrainThread::start(const worker::StartRelease&) {
  begin_task();
  process_.later(around_.chance.below(30), [this] {
    process_.checkpoints().drop();
    process_.reports().forget();
    if (divided_->is_on()) around_.rules.divided_states.dropped(job_, process_.incarnation());
    divided_->hold_nothing();
    job_.clear();
    busy_ = false;
    process_.feed(worker::Released{});
  });
}

void TrainThread::start(const worker::StartRun& task) {
  begin_task();
  join_ = task.join;
  if (join_.spec) spec_ = join_.spec->with_steps_over(kDataTokens);
  told_of_loss_ = unconfirmed_ = memory_went_bad_ = false;
  compared_ = -1;
  around_.story.tell(process_.name(), "joins generation {} of {} as rank {} of {}", join_.generation, join_.job, join_.rank,
                     join_.members.size());
  around_.rules.joins(process_, join_);
  ring_ = &around_.rings.of(join_);
  process_.checkpoints().enter_generation(join_.generation);
  const int64_t patience = static_cast<int64_t>(spec_.collective_timeout_s * 1000);
  process_.later(around_.chance.below(5), [this, task = task_, patience] {
    if (task != task_) return;
    if (interrupted_) return stop_interrupted();
    ring_->gather(join_.rank, process_, {}, patience, [this, task](const Gathered& formed) {
      if (task != task_) return;
      if (interrupted_) return stop_interrupted();
      if (!formed)
        return stop({.reason = formed.error().kind, .fault = formed.error().kind, .suspect_rank = formed.error().suspect_rank});
      around_.rules.ring_formed(join_);
      acquire_state();
    });
  });
}

void TrainThread::ask(const worker::AskYield& request) {
  leaving_ = request.leaving;
  released_ = request.released;
  checkpoint_ = request.checkpoint;
  yield_ = true;
}

// Ends the task soon, whatever it waits for.
void TrainThread::interrupt(const std::string& reason) {
  interrupted_ = true;
  interrupt_ = reason;
  if (ring_ == nullptr) return;
  after(around_.chance.below(30), &TrainThread::stop_interrupted);
}

void TrainThread::vanish() {
  ++task_;
  if (ring_ != nullptr) std::exchange(ring_, nullptr)->leave(join_.rank, true);
}

// The checkpoint of `step` cannot be written by this generation.
void TrainThread::stop_unwritten(int64_t step) {
  const int64_t by = process_.checkpoints().superseded_by(step);
  if (interrupted_ || by == 0) return stop_interrupted();
  stop({.reason = fmt::format("generation {} has written the checkpoint of step {}", by, step),
        .fault = {},
        .superseded_by = by});
}

void TrainThread::report_fault(const Stop& stop) {
  rendezvous::FaultReport met;
  met.generation = join_.generation;
  met.suspect_rank = stop.suspect_rank;
  met.kind = stop.fault;
  met.detail = stop.reason;
  met.checkpoint_step = stop.checkpoint_step;
  const bool ended = stop.fault == "connection_lost" || stop.fault == "handshake_failed";
  const auto gone = ended ? ring_->gone(join_.rank) : std::vector<int>{};
  for (const auto& report : worker::fault_reports(std::move(met), gone, join_.members))
    process_.client().report_fault(join_.job, report);
}

void TrainThread::stop(const Stop& stop) {
  ++task_;
  process_.reports().end();
  // If the ring broke before all had confirmed, the point is kept: the next generation may start from here.
  if (std::exchange(unconfirmed_, false)) process_.reports().committed(point_of_step());
  if (!stop.fault.empty()) report_fault(stop);
  std::exchange(ring_, nullptr)->leave(join_.rank, false);
  // An altered state that no comparison has found is lost here with its node's memory: alone, nobody could tell.
  if (stop.fault == "state_mismatch" || stop.fault == "state_lost" || stop.state_is_wrong ||
      std::exchange(memory_went_bad_, false))
    divided_->hold_nothing();
  around_.story.tell(process_.name(), "is out of generation {} at step {}{}{}", join_.generation, held_step(),
                     stop.reason.empty() ? "" : ": ", stop.reason);
  busy_ = false;
  process_.feed(worker::RunEnded{held_step(), stop.reason, stop.superseded_by});
}

}  // namespace holdfast::sim
