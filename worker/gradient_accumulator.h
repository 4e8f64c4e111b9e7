// The gradients of this rank's microbatches of one step, as one flat buffer that the ring can sum.
//
// exact: fixed-point integers under the state's exponents (exponent_rule.h), so the sum over all ranks has the same bits
// however the microbatches were dealt. float: plain sums in microbatch order.
// Promises: no allocation of the size of the model after the constructor; the model's gradient buffer holds the mean over
// all M microbatches after `unpack`. A microbatch that was finished stays in the sums, whatever becomes of the step: the next
// try at it, by other members, goes on from there (`kept`), until `forget` or another step. Throws model::Interrupted out of
// passes. Thread: one.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/ops.h"
#include "model/data/data_order.h"
#include "model/device_buffer.h"
#include "model/gpt2.h"

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

  // Microbatches of the step that follows state `step` that are in the sums already, ascending.
  std::vector<int64_t> kept(int64_t step, std::span<const int32_t> exponents) const;
  // Nothing is kept: the state is another one than the sums were computed from, or somebody else has done the same.
  void forget();

  // Computes microbatches of the step that follows state `step`, and packs them under `exponents`, beside those kept. Tensors
  // that overflow are left out: `repack` does them. Returns what was found in all of them.
  const LocalStep& accumulate(int64_t step, std::span<const int64_t> microbatches, std::span<const int32_t> exponents);

  // New exponents for the tensors that overflowed anywhere, from the largest magnitudes over all ranks; the others keep
  // theirs. Empty when nothing overflowed.
  std::vector<int32_t> repack_exponents(std::span<const int32_t> exponents, std::span<const float> maxima) const;
  // Packs again the tensors whose exponent differs from `after`. Computes the microbatches again, unless there is only one
  // and its gradient is still there.
  void repack(std::span<const int32_t> after);
  // What step + 1 uses.
  std::vector<int32_t> next_exponents(std::span<const int32_t> exponents, std::span<const float> maxima) const;

  // For the all-reduce: this rank's sums, and where those of all ranks belong (the model's gradient buffer); host-readable
  // for the cpu and ref ops. A step of one rank alone has its sums of all ranks in the first.
  std::span<int32_t> integer_sums();
  std::span<float> float_sums();
  std::span<int32_t> integer_result();
  std::span<float> float_result();

  // Writes the mean over all microbatches into the model's gradients, from the result or (`alone`) from this rank's sums.
  void unpack(std::span<const int32_t> exponents, bool alone);

 private:
  double compute(int64_t step, int64_t microbatch);  // the microbatch's mean loss; gradients are in the model
  void pack_microbatch(std::span<const int32_t> exponents);

  kernels::DeviceOps& ops_;
  model::Gpt2& model_;
  model::DataOrder order_;
  std::span<const uint16_t> tokens_;
  bool exact_;
  int64_t limit_;
  model::DeviceBuffer sums_;  // int32 or float, one per parameter
  std::vector<int32_t> inputs_, targets_;

  // What the sums hold.
  int64_t step_ = -1;
  std::vector<int32_t> exponents_;
  std::vector<int64_t> microbatches_;  // in the order in which they were computed
  LocalStep found_;
  int64_t gradient_of_ = -1;  // the microbatch whose gradient the model's buffer holds; -1: none
};

}  // namespace holdfast::worker
