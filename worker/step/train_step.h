// The parts of one training step that are more than one call; train_loop.cpp puts them in order.
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <thread>

#include "rendezvous/protocol/messages.h"
#include "worker/collectives/queue/collective_queue.h"
#include "worker/collectives/queue/lost_peer_notice.h"
#include "worker/step/exchange.h"
#include "worker/step/shares.h"
#include "worker/step/train_loop.h"

namespace holdfast::worker {

// Measures how long a step took, and how much of that its thread waited for the other ranks.
class StepClock {
 public:
  template <typename Call>
  auto communicating(Call call) {
    const auto begin = Clock::now();
    auto result = call();
    communication_ += Clock::now() - begin;
    return result;
  }
  void communicated(std::chrono::duration<double> duration) { communication_ += duration; }
  double step_s() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }
  double communication_s() const { return communication_.count(); }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin_ = Clock::now();
  std::chrono::duration<double> communication_{0};
};

// One step. With overlap the gradients are summed over the ring while this rank's last microbatch is computed, before the
// ranks exchange their reports. If the reports then say that a tensor overflowed on any rank, everything is packed and
// reduced again: packing computes the microbatches anew, and that overwrites the sums of all ranks, also the good ones. The
// bits are the same with and without overlap.
class TrainStep {
 public:
  TrainStep(TrainLoop& loop, const StepShares& shares);

  // Forward and backward over this rank's microbatches, packed for the reduction, which may begin before it returns.
  RunResult<void> accumulate();
  // Waits for the reduction under way. Returns what all ranks report together, and whether they stop after this step.
  RunResult<StepAgreement> exchange();
  // Sums the gradients over the ring and applies AdamW. If a loss or gradient is not finite the step is refused, on all ranks
  // alike: it counts and its data is consumed, but only the step number and float16's loss scale change. Too many refused
  // steps in a row, at a loss scale that cannot be smaller, end the job. Returns the point to report once it is confirmed.
  RunResult<rendezvous::StepPoint> update(const StepAgreement& agreed);
  // Takes the parameters that other ranks own, where the state is divided. Then waits until every rank has applied or refused
  // the step, and compares their verdicts. If a rank cannot learn them, it keeps
  // the point: the next generation may start from here. A rank whose verdict is not that of more than half does not trust its
  // state any more.
  RunResult<void> confirm(rendezvous::StepPoint& point);

 private:
  // `accumulate` where gradients are scattered, with each microbatch.
  RunResult<void> scatter();
  CollectiveResult<LocalStep> scatter_beside(CollectiveQueue* queue);
  // Tells of a neighbour that is lost while this rank computes. No collective may be called while it lives.
  std::jthread watch_peers();
  bool overlaps() const;
  bool scatters_beside() const;
  void add_parts(size_t count);  // the first of them are final
  // The number of parts that are reduced one after the other: the buckets, then the rows of a tied embedding that were kept
  // apart.
  size_t parts() const { return loop_.session.buckets.size() + (loop_.session.model->table().ties_head() ? 1 : 0); }
  CollectiveResult<void> reduce_part(size_t part);
  CollectiveResult<void> reduce_all();
  RunResult<void> finish_reduction();
  // Whether anything was packed again.
  RunResult<bool> repack_overflows(const StepAgreement& agreed);
  void tell_repacked(std::span<const size_t> tensors);  // by their index in the table
  // Packs the tensors that overflowed again, sums over the ring, and leaves the mean gradient in the model.
  RunResult<void> reduce(const StepAgreement& agreed);
  // Applies the mean gradient, once its norm is known. Returns the norm.
  RunResult<double> apply(const StepAgreement& agreed);
  RunResult<void> refuse(const StepAgreement& agreed);
  void lower_loss_scale(const StepAgreement& agreed);
  RunResult<void> share();
  void keep_unconfirmed(const rendezvous::StepPoint& point);

  TrainLoop& loop_;
  const StepShares& shares_;
  StepClock clock_;
  LocalStep local_;
  int64_t compute_us_ = 0;
  StepVerdict verdict_;
  bool is_last_ = false;            // of its generation
  std::vector<int32_t> exponents_;  // of this step, one per tensor; empty for the float reduction
  LostPeerNotice lost_peers_;
  std::unique_ptr<CollectiveQueue> reduction_;  // none without overlap
  size_t parts_added_ = 0;                      // to it
};

}  // namespace holdfast::worker
