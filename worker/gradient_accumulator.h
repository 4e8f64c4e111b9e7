// The gradients of this rank's microbatches of one step, as one flat buffer that the ring can sum. With local steps
// (local_steps.h) read "replica" for microbatch, and "how far its steps led" for gradient, here and in all that deals them.
//
// Exact wire types: fixed-point integers under the state's exponents (exponent_rule.h), so the sum over all ranks has the
// same bits however the microbatches were dealt. The others: plain float sums in microbatch order, rounded for the wire.
// Of the tied embedding's gradient the head's part and the encoder's are packed one by one; the encoder's part of the last
// microbatch stays apart (sparse_rows.h) until the next microbatch comes, or is reduced so.
// The model's gradients are times its loss scale, a power of two; maxima, exponents, integers and the mean are without it.
// Promises: no allocation of the size of the model after the constructor; the model's gradient buffer holds the mean over
// all M microbatches after `unpack`. What a rank brought to a reduction that failed it still has. A microbatch that was
// finished stays in the sums, whatever becomes of the step: the next try at it, by other members, goes on from there (`kept`),
// until `forget` or another step. Throws model::Interrupted out of passes. Thread: one, but for `reduce`.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kernels/ops.h"
#include "model/data/data_order.h"
#include "model/device_buffer.h"
#include "model/gpt2.h"
#include "model/host_mirror.h"
#include "worker/collectives/communicator.h"
#include "worker/collectives/quantized_reduce.h"
#include "worker/local_steps.h"
#include "worker/sparse_rows.h"
#include "worker/wire_type.h"

namespace holdfast::worker {

// What this rank found in its own microbatches.
struct LocalStep {
  int64_t loss = 0;  // fixed point (loss_to_fixed), summed
  uint64_t data_digest = 0;
  bool finite = true;
  std::vector<float> maxima;  // per tensor; empty for the float reduction
};

using model::Elements;

class GradientAccumulator {
 public:
  // `ops`, `model` and the memory of `tokens` outlive it.
  GradientAccumulator(kernels::DeviceOps& ops, model::Gpt2& model, const model::DataOrder& order,
                      std::span<const uint16_t> tokens, WireType wire, std::unique_ptr<LocalSteps> local_steps = nullptr,
                      int64_t replicas = 0);

  bool exact() const { return is_exact(wire_); }

  // Microbatches of the step that follows state `step` that are in the sums already, ascending. One whose pass was interrupted
  // when a part of its gradient was in the sums is among them: the next `accumulate` computes it again, and adds the rest.
  std::vector<int64_t> kept(int64_t step, std::span<const int32_t> exponents) const;
  // Nothing is kept: the state is another one than the sums were computed from, or somebody else has done the same. The
  // rounding errors of int8 sums are dropped, too (QuantizedReduction::forget).
  void forget();

  // Computes microbatches of the step that follows state `step`, and packs them under `exponents`, beside those kept. Tensors
  // that overflow are left out: `repack` does them. Returns what was found in all of them.
  // With `on_packed` it tells of the sums that are final while the last microbatch's backward pass goes on: once of each range
  // of the model's gradient_order(), by its place there, in order, and last of the rows that stay apart, as the one after them;
  // of all at once when there is nothing to compute. From then on nobody but `reduce` touches that range of the sums and of
  // the model's gradients, or the rows.
  using OnPacked = std::function<void(size_t range)>;
  const LocalStep& accumulate(int64_t step, std::span<const int64_t> microbatches, std::span<const int32_t> exponents,
                              const OnPacked& on_packed = nullptr);

  // New exponents for the tensors that overflowed anywhere, from the largest magnitudes over all ranks; the others keep
  // theirs. Empty when nothing overflowed.
  std::vector<int32_t> repack_exponents(std::span<const int32_t> exponents, std::span<const float> maxima) const;
  // Packs again the tensors whose exponent differs from `after`. Computes the microbatches again, unless there is only one
  // and its gradient is still there.
  void repack(std::span<const int32_t> after);
  // What the step that follows state `step` uses where the state has no exponents yet: chosen, with headroom, from the gradient
  // of its first microbatch alone. Every rank computes it; what the sums hold stays. Unset where it is not finite. Exact types.
  std::vector<int32_t> first_exponents(int64_t step);
  // What step + 1 uses.
  std::vector<int32_t> next_exponents(std::span<const int32_t> exponents, std::span<const float> maxima) const;

  // Sums a range over all ranks, which all call it with the same ranges in the same order, into the range's own part of the
  // model's gradient buffer, where `unpack` finds it: as float, or as int32 where the wire type is exact. This rank's sums are
  // only read. It may be called from another thread, one at a time, once the range's own sums are final, while others are still
  // computed: nothing outside of the range is touched. The ring works on host memory: ranges that `on_packed` told of are on
  // their way there.
  CollectiveResult<void> reduce(Communicator& ring, Elements range);
  // After all ranges: adds the rows that the ranks kept apart. Else as above.
  CollectiveResult<void> reduce_rows(Communicator& ring);
  CollectiveResult<void> reduce(Communicator& ring);  // all of it

  // Writes the mean over all microbatches into the model's gradients: from what was reduced there, every range and the rows, or
  // (`alone`: a step of one rank, which has nothing to reduce) from this rank's sums.
  void unpack(std::span<const int32_t> exponents, bool alone);

  // The mean was applied: what int8 rounded away of it counts from now on.
  void step_applied();

  // Before a reduction that nothing hides: the rows that the last microbatch brought apart join the sums, so that they are
  // not sent twice. Exact types only, whose bits do not depend on it.
  void move_rows_to_sums();

  // The mean gradient for another rank, in host memory.
  std::span<const float> gradient_to_send();
  // Where another rank's is to be written, in host memory: what was there does not count any more. Then `gradient_received`.
  std::span<float> overwrite_gradient();
  void gradient_received();

 private:
  // Gradients are in the model then. A loss that is not finite says so of the gradient, too.
  struct Computed {
    double loss;  // mean
    uint64_t digest;
  };
  Computed compute(int64_t step, int64_t microbatch, const model::OnGradients& on_gradients = nullptr);
  // The sums are final in this place of the gradient_order, or the rows are.
  void tell(size_t range, const OnPacked& on_packed);
  void begin_step(int64_t step, std::span<const int32_t> exponents);
  void add(int64_t microbatch, const OnPacked& on_packed);
  void pack(Elements range);
  void pack_rows();
  void pack_exactly(Elements range);
  // The largest magnitude of each of these tensors of the table in the model's gradients, and of all of the tied embedding's
  // rows.
  std::vector<float> largest_of(std::span<const model::Parameter> tensors) const;
  float largest_of_rows(const model::TokenGradient& gradient) const;
  // Tensor `t` of the gradient in the model's buffer.
  void pack(size_t t, int32_t exponent, bool first);
  CollectiveResult<void> reduce_on_host(Communicator& ring, size_t first, size_t count);
  void unpack_integers(std::span<const int32_t> exponents, bool alone);
  void unpack_floats(bool alone);

  kernels::DeviceOps& ops_;
  model::Gpt2& model_;
  model::DataOrder order_;
  std::span<const uint16_t> tokens_;
  WireType wire_;
  std::unique_ptr<LocalSteps> local_steps_;  // none where gradients are summed
  int64_t microbatches_of_step_;             // or replicas
  int64_t limit_;                            // of an exact type
  model::DeviceBuffer sums_;                 // int32, int16 or float, one per parameter
  model::HostMirror sums_on_host_, gradient_on_host_;
  bool fetched_ahead_ = false;                   // of the sums what `on_packed` told of is there, or on its way
  std::optional<QuantizedReduction> quantized_;  // of int8
  SparseRows rows_;                              // of the microbatch that was last finished; not in the sums yet
  std::vector<int32_t> inputs_, targets_;

  // What the sums hold.
  int64_t step_ = -1;
  std::vector<int32_t> exponents_;
  int loss_scale_log2_ = 0;            // the float sums are still times it
  std::vector<int64_t> microbatches_;  // in the order in which they were computed
  int64_t begun_ = -1;                 // one that is in the first ranges of the backward pass alone; -1: none
  size_t ranges_packed_ = 0;           // so many of them
  float head_largest_ = 0;             // of the head's part of the tied embedding's gradient, in the microbatch last begun
  LocalStep found_;
  int64_t gradient_of_ = -1;               // the microbatch whose gradient was last in the model's buffer; -1: none
  std::atomic<bool> overwritten_ = false;  // and a part of it is a result by now
};

}  // namespace holdfast::worker
