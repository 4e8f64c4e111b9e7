// The gradients of this rank's microbatches of one step, as one flat buffer that the ring can sum. With local steps
// (local_steps.h) read "replica" for microbatch, and "how far its steps led" for gradient, here and in all that deals them.
//
// Exact wire types: fixed-point integers under the state's exponents (exponent_rule.h), so the sum over all ranks has the
// same bits however the microbatches were dealt. The other types: plain float sums in microbatch order, rounded for the wire.
// The tied embedding's gradient has two parts, the head's and the encoder's, which are packed one by one. The encoder's part
// of the last microbatch stays apart (sparse_rows.h) until the next microbatch comes, or until it is reduced as it is.
// The model's gradients are multiplied by its loss scale, a power of two; maxima, exponents, integers and the mean are not.
// Promises: no allocation of the size of the model after the constructor. A microbatch that was finished stays in the sums,
// whatever becomes of the step: the next try at the step, by other members, goes on from there (`kept`), until `forget` or
// another step. A pass that is interrupted throws model::Interrupted.
// Thread: one.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "kernels/ops.h"
#include "model/gpt2.h"
#include "worker/gradients/exponent_rule.h"
#include "worker/gradients/local_steps.h"
#include "worker/gradients/mean_gradient.h"
#include "worker/gradients/microbatch_pass.h"
#include "worker/gradients/packed_sums.h"

namespace holdfast::worker {

class GradientAccumulator {
 public:
  // `local_steps`: null where gradients are summed, and not the results of local steps.
  explicit GradientAccumulator(const GradientSetup& setup, std::unique_ptr<LocalSteps> local_steps = nullptr);

  bool exact() const { return is_exact(wire_); }

  // The microbatches, ascending, that are in the sums already, of the step that follows state `step`. A microbatch whose pass
  // was interrupted after a part of its gradient joined the sums is among them: the next `accumulate` computes it again, and
  // adds the rest.
  std::vector<int64_t> kept(int64_t step, std::span<const int32_t> exponents) const;
  // Drops the sums: they were computed from another state, or other ranks have computed the same microbatches. Drops the
  // rounding errors of int8 sums, too (QuantizedReduction::forget).
  void forget();

  // Computes microbatches of the step that follows state `step`, and packs them under `exponents`, beside those kept. Tensors
  // that overflow are left out: `repack` packs them. Returns the findings about all microbatches in the sums.
  // `on_packed` is told which sums are final while the last microbatch's backward pass goes on: once for each range of the
  // model's gradient_order(), by its index there and in that order, and at last, with the index after them, for the rows that
  // stay apart. When there is nothing to compute, all are told at once. It calls MeanGradient::begin_fetch, or
  // begin_fetch_rows; from then on only MeanGradient::reduce touches that range of the sums and of the model's gradients, or
  // the rows.
  using OnPacked = std::function<void(size_t range)>;
  const LocalStep& accumulate(int64_t step, std::span<const int64_t> microbatches, std::span<const int32_t> exponents,
                              const OnPacked& on_packed = nullptr);

  // Packs again the tensors whose exponent differs from `after`. Computes the microbatches again, unless there is only one
  // and its gradient is still there.
  void repack(std::span<const int32_t> after);
  // The exponents for the step that follows state `step`, when the state has none yet: chosen, with headroom, from the
  // gradient of the step's first microbatch alone, which every rank computes. The sums stay as they are. All unset where that
  // gradient is not finite. Exact types only.
  std::vector<int32_t> first_exponents(int64_t step);
  // The last microbatch's rows join the sums. Call it before a reduction without overlap, so that the rows are not sent
  // twice. Exact types only: their bits do not depend on it.
  void move_rows_to_sums();

  // The reduction over all ranks, and its result.
  MeanGradient& mean() { return mean_; }
  // The rule for the exponents of a step. Exact types.
  const ExponentRule& rule() const { return rule_; }

 private:
  Computed compute(int64_t step, int64_t microbatch, const model::OnGradients& on_gradients = nullptr);
  void begin_step(int64_t step, std::span<const int32_t> exponents);
  void add(int64_t microbatch, const OnPacked& on_packed);
  void pack(Elements range);
  void pack_rows();
  void pack_exactly(Elements range);
  // Packs tensor `t` of the model's gradient buffer.
  void pack(size_t t, int32_t exponent, bool first);

  kernels::DeviceOps& ops_;
  model::Gpt2& model_;
  WireType wire_;
  MicrobatchPass pass_;
  std::unique_ptr<LocalSteps> local_steps_;  // none where gradients are summed
  ExponentRule rule_;                        // of an exact type
  PackedSums sums_;
  MeanGradient mean_;

  // The contents of the sums.
  int64_t step_ = -1;
  std::vector<int32_t> exponents_;
  int loss_scale_log2_ = 0;            // the float sums are still multiplied by it
  std::vector<int64_t> microbatches_;  // in the order in which they were computed
  int64_t begun_ = -1;                 // the microbatch whose pass packed only its first ranges; -1: none
  size_t ranges_packed_ = 0;           // of `begun_`
  float head_largest_ = 0;             // of the head's part of the tied embedding's gradient, in the microbatch last begun
  std::vector<float> largest_;         // of every tensor's gradient, where they were all looked at before the first is packed
  LocalStep found_;
  int64_t gradient_of_ = -1;  // the microbatch whose gradient was last in the model's buffer; -1: none
};

}  // namespace holdfast::worker
