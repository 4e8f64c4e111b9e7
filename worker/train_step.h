// The parts of one training step that are more than a call: what train_loop.cpp puts in order.
#pragma once

#include <chrono>
#include <memory>
#include <span>

#include "rendezvous/protocol/messages.h"
#include "worker/loss_teller.h"
#include "worker/overlapped_reduction.h"
#include "worker/step_exchange.h"
#include "worker/step_shares.h"
#include "worker/train_loop.h"

namespace holdfast::worker {

// How long a step took, and for how much of that its thread waited for the other ranks.
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

// Before a step whose state has no exponents yet, as a job's first: every rank computes one microbatch, and they are chosen
// from that. Not for local steps, which are too long for it: there all of the first overflows, and is packed again.
RunResult<void> choose_first_exponents(TrainLoop& loop);

// The shares of the first step of a generation: what its members have kept of it counts. One small all-gather. Every other
// step is dealt by the Dealer.
RunResult<StepShares> agree_on_shares(TrainLoop& loop);

// With overlap the gradients are summed over the ring while the last of this rank's microbatches is computed, before the ranks
// tell each other what they found. Where they then find that a tensor overflowed anywhere, everything is packed and reduced
// again: to pack is to compute the microbatches anew, and that writes over the sums of all ranks, good ones too. The bits are
// the same with and without overlap.
class TrainStep {
 public:
  TrainStep(TrainLoop& loop, const StepShares& shares);

  // Forward and backward over this rank's microbatches, packed for the reduction, which may begin before it returns.
  RunResult<void> accumulate();
  // Waits for the reduction that goes on. What all ranks found, and whether they stop after this step.
  RunResult<StepAgreement> exchange();
  // Sums the gradients over the ring and applies AdamW. Where a loss or gradient is not finite the step is refused, on all
  // ranks alike: it counts, its data is consumed, and nothing but the step number and float16's loss scale changes. Too many
  // of them in a row, at a loss scale that cannot be smaller, end the job. Returns the point to report once it is confirmed.
  RunResult<rendezvous::StepPoint> update(const StepAgreement& agreed);
  // Every rank has applied it. If that cannot be learnt, the point is kept: the next generation may start from here.
  RunResult<void> confirm(rendezvous::StepPoint& point);

 private:
  bool overlaps() const;
  // What is reduced one after the other: the buckets, then the rows of the embedding that were kept apart.
  size_t parts() const { return loop_.session.buckets.size() + 1; }
  CollectiveResult<void> reduce_part(size_t part);
  CollectiveResult<void> reduce_all();
  RunResult<void> finish_reduction();
  // Whether anything was packed again.
  RunResult<bool> repack_overflows(const StepAgreement& agreed);
  void tell_repacked(std::span<const size_t> tensors);  // by their places in the table
  // Packs again what overflowed, sums over the ring, leaves the mean gradient in the model.
  RunResult<void> reduce(const StepAgreement& agreed);
  RunResult<void> refuse(const StepAgreement& agreed);
  void lower_loss_scale(const StepAgreement& agreed);

  TrainLoop& loop_;
  const StepShares& shares_;
  StepClock clock_;
  LocalStep local_;
  int64_t compute_us_ = 0;
  std::vector<int32_t> exponents_;  // this step's, one per tensor; empty for the float reduction
  LossTeller losses_;
  std::unique_ptr<OverlappedReduction> reduction_;  // none without overlap
};

}  // namespace holdfast::worker
