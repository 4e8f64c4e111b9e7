// The mean gradient of a step over all ranks: the ranks' packed sums, summed over the ring into the model's gradient buffer.
//
// A step goes: accumulate (accumulator.h), then `reduce` of every range and `reduce_rows`, then `unpack`. A rank that missed
// the step may take the mean from one that has it: `to_send` there, `overwrite` and `received` here.
// Promises: no allocation of the size of the model after the constructor; the packed sums are only read, so a rank still has
// what it brought to a reduction that failed, except that `unpack` alone takes the rows in.
// Thread: one, but for the reduce functions.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "kernels/ops.h"
#include "worker/collectives/communicator.h"
#include "worker/collectives/quantized_reduce.h"
#include "worker/gradients/host_mirror.h"
#include "worker/gradients/packed_sums.h"

namespace holdfast::worker {

class MeanGradient {
 public:
  // `dealt_units`: so many microbatches, or replicas, are in the sums of all ranks together. `ops` and `sums` outlive it.
  MeanGradient(kernels::DeviceOps& ops, PackedSums& sums, int64_t dealt_units);

  // Sums a range over all ranks, which all call it with the same ranges in the same order, into the range's own part of the
  // model's gradient buffer, where `unpack` finds it: as float, or as int32 where the wire type is exact. Another thread may
  // call it, one at a time, once the range's own sums are final, while other ranges are still computed: nothing outside of the
  // range is touched. Ranges go from device to device where the ring has such sums, and else over the host's memory: after
  // `expect_fetches` they are on their way there.
  CollectiveResult<void> reduce(Communicator& ring, Elements range);
  // After all ranges: gathers the rows of a tied embedding that the ranks kept apart, which `unpack` adds. Threads as above.
  CollectiveResult<void> reduce_rows(Communicator& ring);
  CollectiveResult<void> reduce(Communicator& ring);  // all ranges, and the rows

  // Where the state is divided: `parts` of the table say which ranks are to have whose sums, and `own` what this rank is to
  // have of the mean; both ascend. From now on `reduce` brings a range's sums to those ranks alone, where it may (exact types,
  // ranks that share no node's memory), and `unpack` writes what is this rank's own; the rest of the buffer is unspecified. No
  // parts: every rank has all.
  void divide(std::vector<SumPart> parts, std::vector<Elements> own);

  // Writes the mean over all microbatches into the model's gradients: from the reduced ranges and rows there, or (`alone`: a
  // step of one rank, which has nothing to reduce) from this rank's sums.
  void unpack(std::span<const int32_t> exponents, bool alone);
  // The mean was applied: the errors of its rounding to int8 count from now on.
  void step_applied();

  // Takes the host memory of the parameters' size that a reduction needs where the device's is not the host's; without this the
  // first one takes it, as it does that of the rows that stay apart. Throws std::runtime_error where there is not enough.
  void prepare_host_memory();

  // The mean gradient for another rank, in host memory.
  std::span<const float> to_send();
  // Host memory for another rank's mean gradient; what was in the buffer does not count any more. Call `received` afterwards.
  std::span<float> overwrite();
  void received();

  // A range of the sums, or the rows, are final while other ranges are computed, and on their way to `ring`. After
  // `expect_fetches(true)`.
  void begin_fetch(Communicator& ring, Elements range);
  void begin_fetch_rows();

  // --- for the accumulator
  // Sums of another step, with this loss scale, begin. Rounding errors that were made at another scale are dropped.
  void begin_step(int loss_scale_log2);
  // The rounding errors of int8 sums are dropped (QuantizedReduction::forget).
  void forget();
  // Whether `begin_fetch` will announce each range when it is final; else `reduce` fetches the ranges itself.
  void expect_fetches(bool one_by_one);
  // Waits for copies to the gradient buffer that a reduction, which may have failed, left under way.
  void await_puts();
  // Whether a reduction wrote to the gradient buffer, completely or in part.
  bool overwrote_buffer() const { return overwritten_; }
  // The gradient buffer belongs to a backward pass again.
  void give_buffer_to_model();

 private:
  bool between_devices(const Communicator& ring) const;
  kernels::DeviceSums::Moment final_moment(Elements range);
  CollectiveResult<void> reduce_between_devices(Communicator& ring, Elements range);
  CollectiveResult<void> reduce_on_host(Communicator& ring, size_t first, size_t count);
  void unpack_integers(std::span<const int32_t> exponents, bool alone);
  void unpack_integers(Elements range, int32_t exponent, bool alone);
  void unpack_floats(bool alone);

  kernels::DeviceOps& ops_;
  PackedSums& sums_;
  model::Gpt2& model_;
  int64_t dealt_units_;
  HostMirror sums_on_host_, gradient_on_host_;
  bool fetched_ahead_ = false;  // ranges that are final are on the host, or on their way
  struct Final {
    Elements elements;
    kernels::DeviceSums::Moment moment;
  };
  std::mutex final_mutex_;
  std::vector<Final> final_;                     // ranges for sums between devices
  std::optional<QuantizedReduction> quantized_;  // of int8
  std::vector<SumPart> parts_;                   // none: every rank has all of the mean
  std::vector<Elements> own_;
  int loss_scale_log2_ = 0;  // the float sums are still multiplied by it
  std::atomic<bool> overwritten_ = false;
};

}  // namespace holdfast::worker
