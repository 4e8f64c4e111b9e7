// The parts of one training step that are more than a call: what train_loop.cpp puts in order.
#pragma once

#include <chrono>

#include "rendezvous/protocol/messages.h"
#include "worker/step_exchange.h"
#include "worker/step_shares.h"
#include "worker/train_loop.h"

namespace holdfast::worker {

// How long a step took, and how much of that went into talking to the other ranks.
class StepClock {
 public:
  template <typename Call>
  auto communicating(Call call) {
    const auto begin = Clock::now();
    auto result = call();
    communication_ += Clock::now() - begin;
    return result;
  }
  double step_s() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }
  double communication_s() const { return communication_.count(); }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin_ = Clock::now();
  std::chrono::duration<double> communication_{0};
};

// Every rank hashes its state, and all compare; the hash. Nothing is written down of a state before: more than half decide
// whose is right, and the others drop theirs. One small all-gather.
RunResult<std::string> compare_states(TrainLoop& loop);

// The shares of the first step of a generation: what its members have kept of it counts. One small all-gather. Every other
// step is dealt by the Dealer.
RunResult<StepShares> agree_on_shares(TrainLoop& loop);

class TrainStep {
 public:
  TrainStep(TrainLoop& loop, const StepShares& shares);

  // Forward and backward over this rank's microbatches, packed for the reduction.
  RunResult<void> accumulate();
  // What all ranks found, and whether they stop after this step.
  RunResult<StepAgreement> exchange();
  // Sums the gradients over the ring and applies AdamW. Where a loss or gradient is not finite the step is refused, on all
  // ranks alike: it counts, its data is consumed, and nothing but the step number changes. Too many of them in a row end
  // the job. Returns the point to report once it is confirmed.
  RunResult<rendezvous::StepPoint> update(const StepAgreement& agreed);
  // Every rank has applied it. If that cannot be learnt, the point is kept: the next generation may start from here.
  RunResult<void> confirm(rendezvous::StepPoint& point);

 private:
  RunResult<void> repack_overflows(const StepAgreement& agreed);
  void tell_repacked(int64_t tensors);
  // Packs again what overflowed, sums over the ring, leaves the mean gradient in the model.
  RunResult<void> reduce(const StepAgreement& agreed);
  RunResult<void> refuse(const StepAgreement& agreed);

  TrainLoop& loop_;
  const StepShares& shares_;
  StepClock clock_;
  LocalStep local_;
  int64_t compute_us_ = 0;
  std::vector<int32_t> exponents_;  // this step's, one per tensor; empty for the float reduction
};

}  // namespace holdfast::worker
