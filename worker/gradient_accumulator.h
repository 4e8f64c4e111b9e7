// The gradients of this rank's microbatches of one step, as one flat buffer that the ring can sum.
//
// exact: fixed-point integers under the state's exponents (exponent_rule.h), so the sum over all ranks has the same bits
// however the microbatches were dealt. float: plain sums in microbatch order.
// Promises: no allocation after the constructor; the model's gradient buffer holds the mean over all M microbatches after
// `unpack`. Throws model::Interrupted out of passes. Thread: one.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/ops.h"
#include "model/data/data_order.h"
#include "model/device_buffer.h"
#include "model/gpt2.h"
#include "rendezvous/protocol/job_spec.h"

namespace holdfast::worker {

// What this rank found in its own microbatches.
struct LocalStep {
  int64_t loss = 0;  // fixed point (loss_to_fixed), summed
  uint64_t data_digest = 0;
  bool finite = true;
  std::vector<float> maxima;  // per tensor; empty for the float reduction
};

class GradientAccumulator {
 public:
  // `ops`, `model` and the memory of `tokens` outlive it.
  GradientAccumulator(kernels::DeviceOps& ops, model::Gpt2& model, const model::DataOrder& order,
                      std::span<const uint16_t> tokens, bool exact);

  bool exact() const { return exact_; }

  // Computes the microbatches of `share` of the step that follows state `step`, and packs them under `exponents`. Tensors
  // that overflow are left out: `repack` does them.
  LocalStep accumulate(int64_t step, rendezvous::Share share, std::span<const int32_t> exponents);

  // New exponents for the tensors that overflowed anywhere, from the largest magnitudes over all ranks; the others keep
  // theirs. Empty when nothing overflowed.
  std::vector<int32_t> repack_exponents(std::span<const int32_t> exponents, std::span<const float> maxima) const;
  // Packs again the tensors whose exponent differs between `before` and `after`. Computes the microbatches again, unless
  // there was only one: its gradient is still there.
  void repack(int64_t step, rendezvous::Share share, std::span<const int32_t> before, std::span<const int32_t> after);
  // What step + 1 uses.
  std::vector<int32_t> next_exponents(std::span<const int32_t> exponents, std::span<const float> maxima) const;

  // For the all-reduce; host-readable for the cpu and ref ops.
  std::span<int32_t> integer_sums();
  std::span<float> float_sums();

  // Writes the mean over all microbatches into the model's gradients.
  void unpack(std::span<const int32_t> exponents);

 private:
  double compute(int64_t step, int64_t microbatch);  // the microbatch's mean loss; gradients are in the model
  void pack_microbatch(std::span<const int32_t> exponents, bool first, LocalStep& local);

  kernels::DeviceOps& ops_;
  model::Gpt2& model_;
  model::DataOrder order_;
  std::span<const uint16_t> tokens_;
  bool exact_;
  int64_t limit_;
  model::DeviceBuffer sums_;  // int32 or float, one per parameter
  std::vector<int32_t> inputs_, targets_;
};

}  // namespace holdfast::worker
