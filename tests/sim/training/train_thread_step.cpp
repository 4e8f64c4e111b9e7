// One step after the other, and how a generation ends (worker/step/train_step.cpp and worker/step/train_loop.cpp).
#include <algorithm>
#include <utility>

#include "tests/sim/host.h"
#include "tests/sim/process.h"
#include "tests/sim/rules/rules.h"
#include "tests/sim/training/train_thread.h"
#include "tests/sim/training/train_thread_divided.h"

namespace holdfast::sim {
namespace {

constexpr int64_t kLeaverPatienceMs = 20000;

// Since when a slow worker is to compute less: after two windows of the balancer, and what it does not count.
constexpr int64_t kSlowStepsMax = 2 * (worker::LoadBalancer::kWindow + worker::LoadBalancer::kWarmUpSteps) + 2;

bool due(int64_t step, int64_t every) {
  return every > 0 && step % every == 0;
}

bool writes_after(int64_t step, const rendezvous::JobSpec& spec) {
  return due(step, spec.checkpoint_every) && step < spec.total_steps;
}

}  // namespace

void TrainThread::begin_step() {
  if (state_->step >= spec_.total_steps) return finish_job();
  if (kept_.bits != state_->bits) kept_ = {state_->bits, {}};
  divided_->applied_step = divided_->summed_step = -1;  // the gradient's memory is the next one's
  next_microbatch_ = 0;
  step_began_ms_ = around_.time.now();
  ring_->watch(join_.rank, [this](const RingError& error) {
    if (std::exchange(told_of_loss_, true)) return;
    report_fault({.reason = error.kind, .fault = error.kind, .suspect_rank = error.suspect_rank});
  });
  after(around_.chance.between(1, 10), &TrainThread::compute_next);
}

void TrainThread::compute_next() {
  if (interrupted_) return stop_interrupted();
  const auto& mine = shares_.to_compute[static_cast<size_t>(join_.rank)];
  if (next_microbatch_ < mine.size()) {
    if (next_microbatch_ > 0) kept_.microbatches.push_back(mine[next_microbatch_ - 1]);
    ++next_microbatch_;
    return after(around_.chance.between(10, 60) * process_.host().slowness(), &TrainThread::compute_next);
  }
  if (!mine.empty()) kept_.microbatches.push_back(mine.back());
  Piece piece;
  piece.report.step = state_->step;
  piece.report.yield = yield_;
  piece.report.checkpoint = checkpoint_;
  piece.report.leaving = leaving_;
  for (const int64_t m : kept_.microbatches) piece.report.tokens_digest += tokens_of(state_->step, m);
  piece.report.compute_us = (around_.time.now() - step_began_ms_) * 1000;
  piece.report.acknowledged = process_.reports().acknowledged();
  const auto spoilt = around_.not_finite.find(join_.job);
  const bool finite = spoilt == around_.not_finite.end() || !spoilt->second.contains(state_->step + 1);
  piece.report.finite =
      finite || std::ranges::find(kept_.microbatches, 0) == kept_.microbatches.end();  // it is the first one's
  piece.report.refused_in_row = refused_in_row_;
  gather(std::move(piece), static_cast<int64_t>(spec_.collective_timeout_s * 1000),
         [this](const std::vector<Piece>& all) { exchange(all); });
}

void TrainThread::exchange(const std::vector<Piece>& pieces) {
  std::vector<worker::StepReport> reports;
  for (const Piece& piece : pieces) reports.push_back(piece.report);
  auto agreed = worker::agree(reports);
  if (!agreed) return stop({.reason = agreed.error().text, .fault = "state_mismatch"});
  agreed_ = std::move(*agreed);
  process_.reports().acknowledge(agreed_.acknowledged);
  if (!agreed_.finite) return leave_out();
  Piece piece;
  for (const int64_t m : kept_.microbatches) piece.gradient += gradient_of(divided_->computed_with(), m, recipe_of(spec_));
  if (ring_->size() == 1) return apply({piece});
  gather(std::move(piece), static_cast<int64_t>(spec_.collective_timeout_s * 1000),
         [this](const std::vector<Piece>& all) { apply(all); });
}

rendezvous::StepPoint TrainThread::point_of_step() const {
  rendezvous::StepPoint point;
  point.step = state_->step;
  point.loss = 1.0;
  point.step_s = 0.2;
  point.tokens = spec_.tokens_per_step();
  point.tokens_digest = fmt::format("{:016x}", agreed_.tokens_digest);
  point.shares = for_ledger(shares_);
  point.refused = !agreed_.finite;
  return point;
}

void TrainThread::apply(const std::vector<Piece>& pieces) {
  slow_steps_ = process_.host().slowness() > 1 ? slow_steps_ + 1 : 0;
  if (slow_steps_ > kSlowStepsMax) around_.rules.is_slow(process_, join_, shares_);
  uint64_t gradient = 0;
  for (const Piece& piece : pieces) gradient += piece.gradient;
  divided_->when_all_have_sums([this, gradient] {
    const uint64_t before = state_->bits;
    apply_step(*state_, gradient, join_.generation);
    divided_->apply(before);
    refused_in_row_ = 0;
    applied();
  });
}

void TrainThread::leave_out() {
  const int64_t in_row = agreed_.refused_in_row + 1;
  if (in_row >= spec_.max_refused_steps) {
    if (join_.rank != 0) return wait_until_told();
    return process_.reports().fail(state_->step, fmt::format("{} steps in a row were left out", in_row), [this, task = task_] {
      if (task == task_) wait_until_told();
    });
  }
  const uint64_t before = state_->bits;
  leave_out_step(*state_, join_.generation);
  divided_->leave_out(before);
  refused_in_row_ = in_row;
  applied();
}

void TrainThread::applied() {
  around_.rules.applied(process_, join_, *state_, shares_);
  unconfirmed_ = true;
  divided_->applied_step = state_->step;
  divided_->share([this] {
    Piece piece;
    piece.memory = divided_->memory();
    if (ring_->size() == 1) return confirmed({piece});
    gather(std::move(piece), static_cast<int64_t>(spec_.collective_timeout_s * 1000),
           [this](const std::vector<Piece>& all) { confirmed(all); });
  });
}

void TrainThread::confirmed(const std::vector<Piece>& pieces) {
  if (divided_->is_on()) divided_->require_owners(pieces);
  unconfirmed_ = false;
  process_.reports().committed(point_of_step());
  process_.feed(worker::StepCommitted{state_->step});
  const auto next = [this] {
    if (const auto computing = divided_->computing(); computing != balancer_->computing()) {
      balancer_.emplace(spec_.microbatches(), computing);
      slow_steps_ = 0;
    } else {
      balancer_->observe(shares_, agreed_.compute_us);
    }
    shares_ = balancer_->shares();
    agreed_.yield && state_->step < spec_.total_steps ? yield_now() : begin_step();
  };
  const auto go_on = [this, next] { agreed_.yield ? next() : divided_->fill_some(next); };
  if (writes_after(state_->step, spec_)) {
    return compare_once([this, go_on] {
      divided_->when_it_is_known_who_can_write([this, go_on](bool all_can) {
        if (all_can && (divided_->is_on() || join_.rank == 0)) process_.checkpoints().start(*state_, divided_->writer());
        go_on();
      });
    });
  }
  if (due(state_->step, spec_.hash_every)) return compare_once(go_on);
  go_on();
}

// The ranks compare their states, before any of them is written down; once for each step. This is the moment in which memory
// goes bad here: of a state that was altered earlier, gradients would have been used.
void TrainThread::compare_once(std::function<void()> next) {
  if (compared_ == state_->step) return next();
  if (ring_->size() > 1 && !divided_->is_on() && process_.host().memory_goes_bad()) {
    around_.story.tell(process_.name(), "its memory is altered after step {}", state_->step);
    around_.rules.bad_memory.altered(join_);
    state_->bits = mixed(state_->bits, static_cast<uint64_t>(join_.rank));  // each rank in its own way
    memory_went_bad_ = true;
  }
  after_comparison_ = std::move(next);
  Piece piece;
  piece.hash = state_->hash();
  piece.held = divided_->held(true);
  gather(std::move(piece), static_cast<int64_t>(spec_.collective_timeout_s * 1000),
         [this](const std::vector<Piece>& all) { compared(all); });
}

void TrainThread::compared(const std::vector<Piece>& pieces) {
  std::vector<std::string> hashes;
  for (const Piece& piece : pieces) hashes.push_back(piece.hash);
  if (const auto found = worker::compare_hashes(state_->step, hashes)) {
    around_.rules.bad_memory.states_differ(join_, *found);
    memory_went_bad_ = false;  // it is known: what happens to the state is the verdict's affair
    if (found->odd.empty()) return stop({.reason = found->text, .fault = "state_mismatch"});
    const bool wrong = std::ranges::find(found->odd, join_.rank) != found->odd.end();
    return stop({.reason = found->text,
                 .fault = "state_diverged",
                 .suspect_rank = wrong ? join_.rank : found->odd.front(),
                 .state_is_wrong = wrong});
  }
  divided_->require_hash(pieces);
  compared_ = state_->step;
  if (join_.rank == 0) process_.reports().hashed(state_->step, state_->hash());
  std::exchange(after_comparison_, nullptr)();
}

void TrainThread::yield_now() {
  divided_->hand_over([this] {
    if (!agreed_.checkpoint && !agreed_.all_leaving) return stop({});
    compare_once([this] {
      divided_->when_all_can_write([this] {
        if (join_.rank != 0 && !divided_->is_on()) return stop({});
        const int64_t deadline = agreed_.all_leaving ? around_.time.now() + kLeaverPatienceMs : INT64_MAX;
        write_now(deadline, [this](const std::string& hash) {
          const bool superseded = hash.empty() && process_.checkpoints().superseded_by(state_->step) > 0;
          superseded ? stop_unwritten(state_->step) : stop({});
        });
      });
    });
  });
}

void TrainThread::write_now(int64_t deadline_ms, std::function<void(const std::string&)> then) {
  process_.checkpoints().write_now(
      *state_, divided_->writer(),
      [this, task = task_, deadline_ms] { return task != task_ || interrupted_ || around_.time.now() > deadline_ms; },
      [this, task = task_, then = std::move(then)](const std::string& hash) {
        if (task == task_) then(hash);
      });
}

void TrainThread::finish_job() {
  compare_once([this] {
    divided_->when_all_can_write([this] {
      if (join_.rank != 0 && !divided_->is_on()) return wait_until_told();
      write_now(INT64_MAX, [this](const std::string& hash) {
        if (hash.empty()) return stop_unwritten(state_->step);
        if (join_.rank != 0) return wait_until_told();
        process_.reports().finish(state_->step, hash, [this, task = task_] {
          if (task == task_) wait_until_told();
        });
      });
    });
  });
}

void TrainThread::wait_until_told() {
  if (interrupted_) return stop_interrupted();
  if (yield_ || leaving_) return stop({});
  after(20, &TrainThread::wait_until_told);
}

}  // namespace holdfast::sim
