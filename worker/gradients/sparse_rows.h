// The rows that one microbatch's tokens give to the gradient of an embedding that is tied to the head, packed as the sums are
// and kept beside them. Where it is not tied there are none.
//
// The head's part of that gradient, two thirds of a small model's bytes, is final when the backward pass begins, and is on its
// way to the other ranks while the pass goes on. The encoder's part is final when the pass ends. It has no more rows than the
// microbatch has tokens, so each rank's last microbatch brings it apart: all ranks gather the rows of all, and add them to
// the sums in rank order.
// Promises: packed integers are those that fixed_accumulate makes of the rows, so adding the rows to a rank's own sums and
// gathering them give the same bits. This rank's rows are still there after both, for another try.
// Refuses: rows of another rank that are no rows of the embedding.
// Thread: one, but for `gather`, which another thread may call while nothing else is called.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/ops.h"
#include "model/device_buffer.h"
#include "model/gpt2.h"
#include "worker/collectives/communicator.h"
#include "worker/gradients/host_mirror.h"
#include "worker/gradients/wire_type.h"

namespace holdfast::worker {

class SparseRows {
 public:
  // For microbatches of `tokens` tokens and an embedding (V, C). `ops` outlives it.
  SparseRows(kernels::DeviceOps& ops, WireType wire, int64_t tokens, int64_t V, int64_t C);

  // Packs these rows in place of the earlier ones. `exponent` counts for exact types alone; the caller knows that all sums
  // fit.
  void pack(const model::TokenGradient& gradient, int32_t exponent);
  void clear() {
    ids_.clear();
    gathered_.clear();
  }
  // Starts copying the packed rows to the host, for `gather`.
  void begin_fetch();
  // Adds the rows to this rank's sums (V, C) of the embedding; then no rows are left here.
  void move_to(std::byte* sums);
  // Brings the rows of all ranks here. All ranks call it.
  CollectiveResult<void> gather(Communicator& ring);
  // Adds what was gathered, once and in rank order, to the embedding's part of a reduced gradient (V, C) on the device: float,
  // or int32 where the type is exact.
  void add_gathered(float* result);

 private:
  size_t packed_bytes() const { return ids_.size() * static_cast<size_t>(C_) * sum_bytes(wire_); }
  std::vector<std::byte> encode();
  // Why another rank's block cannot be used; empty when it can.
  std::string refusal(const std::vector<std::byte>& block) const;
  template <typename Packed, typename Sum>
  void add_all(Sum* result);
  template <typename Packed, typename Sum>
  void add(const std::vector<std::byte>& block, Sum* result);

  kernels::DeviceOps& ops_;
  WireType wire_;
  int64_t V_, C_;
  std::vector<int32_t> ids_;  // (R) ascending
  model::DeviceBuffer device_ids_;
  model::DeviceBuffer rows_;  // (R, C) as the sums: int16, int32 or float
  HostMirror rows_on_host_;
  std::vector<std::vector<std::byte>> gathered_;  // by rank
  size_t own_rank_ = 0;                           // among them
};

}  // namespace holdfast::worker
