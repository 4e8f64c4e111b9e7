// The gradient of a step where no rank has memory for all of it (`shard gradients`; ZeRO-2, Rajbhandari et al. 2020, section
// 5.2): each rank keeps the sums of the chunks that it owns, and of the rest a bucket at a time.
//
// In each round every rank computes one of its microbatches, or has none left, and the ring takes what it packed to those who
// own it, bucket by bucket while the backward pass goes on: two buckets' memory is used in turn. So a step of A
// microbatches a rank sends A times what a step of one does, and nothing is kept of a step that failed. A tied embedding goes
// last, with both parts of its gradient (sparse_rows.h says which), whole or in rows (Gpt2::gradient_order). Sums that are kept
// are as wide as those on the wire. Exact types alone (accumulator.h says what that is).
// Promises: the same integers as GradientAccumulator's, so the same bits; no allocation of the size of the model but in
// `divide`. A pass that is interrupted throws model::Interrupted. Thread: one, which calls collectives and is the ops' own.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "model/optimizer.h"
#include "worker/collectives/communicator.h"
#include "worker/collectives/queue/collective_queue.h"
#include "worker/gradients/buckets.h"
#include "worker/gradients/exponent_rule.h"
#include "worker/gradients/host_mirror.h"
#include "worker/gradients/microbatch_pass.h"

namespace holdfast::worker {

class ScatteredGradients {
 public:
  // The model has its gradients by range (model::Gradients::kByRange).
  // `bucket_elements`: as gradient_buckets' target. Half of what is usual, for there is memory for two of them.
  explicit ScatteredGradients(const GradientSetup& setup, int64_t bucket_elements = kBucketElements / 2);

  // `parts` of the table say which ranks are to have whose sums; `own`, ascending, what this rank is to have. Takes memory for
  // that; throws what DeviceOps::allocate does.
  void divide(std::vector<SumPart> parts, const std::vector<model::Elements>& own);
  // As MeanGradient's.
  void prepare_host_memory();

  // The call goes on with computing, or with the ring.
  enum class Phase : uint8_t { kComputing, kRing };
  using OnPhase = std::function<void(Phase)>;
  // Computes `microbatches` of the step that follows state `step`, and brings all ranks' numbers under `exponents` to their
  // owners, beside the passes where there is a `queue`, which then has the ring. All ranks call it, with as many `rounds`,
  // which is the most that any of them computes. Tensors that overflow are left out: `repack` brings them. Returns the findings
  // about this rank's own.
  CollectiveResult<LocalStep> accumulate(Communicator& ring, CollectiveQueue* queue, int64_t step,
                                         std::span<const int64_t> microbatches, size_t rounds,
                                         std::span<const int32_t> exponents, const OnPhase& on_phase);
  // The tensors whose exponent differs from `after`, again: computes the microbatches anew.
  CollectiveResult<void> repack(Communicator& ring, std::span<const int32_t> after);
  // As GradientAccumulator's.
  std::vector<int32_t> first_exponents(int64_t step);
  const ExponentRule& rule() const { return rule_; }

  // The sums that this rank owns become the mean over all microbatches, or are said to be.
  void unpack();
  model::Gradient mean() const;

  // The microbatches of this rank that are in the owners' sums, ascending.
  const std::vector<int64_t>& microbatches() const { return microbatches_; }
  // The time that the last call of `accumulate` spent in the ring, or waiting for the queue.
  std::chrono::duration<double> in_ring() const { return in_ring_; }

 private:
  // Memory for one bucket: as the wire has it.
  struct Slot {
    Slot(kernels::DeviceOps& ops, size_t bytes)
        : packed(ops, bytes),
          sum(ops, bytes),
          packed_on_host(ops, packed.data<void>(), bytes),
          sum_on_host(ops, sum.data<void>(), bytes) {}
    model::DeviceBuffer packed, sum;
    HostMirror packed_on_host, sum_on_host;
    model::Elements bucket;  // on its way, or none
    size_t number = 0;       // in the queue
  };
  struct Own {
    model::Elements elements;
    int64_t at;  // in owned_
  };

  CollectiveResult<void> go_round(Communicator& ring, const OnPhase& on_phase);
  // As a rank that has no microbatch left: in the order of those that compute.
  void pass_along(Communicator& ring);
  void compute(Communicator& ring, int64_t microbatch, const OnPhase& on_phase);
  // Looks at the tensors of a range, or at the tied embedding with its rows: whether they fit.
  void look_at(model::Elements range);
  void look_at_tied(float head_largest);
  bool is_tied(model::Elements range) const;
  bool is_wanted(model::Elements bucket) const;
  void pack(Slot& slot, model::Elements bucket);
  void take_rows();
  void add_rows(Slot& slot, model::Elements bucket);
  // Of the two slots the one whose bucket is on its way for longer, once it has arrived.
  Slot& free_slot();
  // The numbers that all ranks packed of a bucket set out to join the owners' sums.
  void send(Communicator& ring, Slot& slot, model::Elements bucket);
  CollectiveResult<void> reduce(Communicator& ring, Slot& slot);
  void arrive(Slot& slot);
  void keep_own(Slot& slot);
  void accumulate_fixed(std::byte* to, const float* from, int64_t count, size_t tensor);
  size_t bytes_of(int64_t elements) const { return static_cast<size_t>(elements) * sum_bytes(wire_); }
  // call(T{}) with the integer that sums have.
  template <typename Call>
  void with_integer(const Call& call) {
    wire_ == WireType::kInt16 ? call(int16_t{}) : call(int32_t{});
  }

  kernels::DeviceOps& ops_;
  model::Gpt2& model_;
  WireType wire_;
  int64_t dealt_units_;
  ExponentRule rule_;
  MicrobatchPass pass_;
  std::vector<std::vector<model::Elements>> buckets_;  // by range of the backward pass
  int64_t bucket_max_;                                 // elements of the largest
  std::array<Slot, 2> slots_;
  size_t next_slot_ = 0;
  model::DeviceBuffer rows_, row_ids_, no_row_;  // the embedding's rows, packed; ids of some of them; one id, which is 0

  std::vector<SumPart> parts_;
  std::vector<Own> own_;
  model::DeviceBuffer owned_;  // sums as the wire has them; of int32 later the mean, as floats
  std::vector<float> scales_;  // by tensor, of a sum for the mean

  // The step under way.
  CollectiveQueue* queue_ = nullptr;
  int64_t step_ = -1;
  size_t rounds_ = 0;
  std::vector<int32_t> exponents_;
  std::vector<int64_t> microbatches_;
  bool looks_ = true;         // else the exponents are known to fit
  std::vector<bool> wanted_;  // by tensor, whether it is to be brought
  std::vector<bool> fits_;    // by tensor, of the microbatch at hand
  std::vector<int32_t> ids_;  // of rows_
  float rows_largest_ = 0;
  LocalStep found_;
  std::chrono::duration<double> in_ring_{0};
};

}  // namespace holdfast::worker
