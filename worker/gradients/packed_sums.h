// The memory of a rank's sums of one step: one number for each parameter, and beside them the rows of a tied embedding that the
// microbatch finished last brought and that have not joined the sums (sparse_rows.h).
//
// GradientAccumulator fills it; MeanGradient reads it and sums it over the ranks. Thread: as those two say.
#pragma once

#include <cstddef>

#include "kernels/ops.h"
#include "model/device_buffer.h"
#include "model/gpt2.h"
#include "worker/gradients/sparse_rows.h"
#include "worker/gradients/wire_type.h"

namespace holdfast::worker {

using model::Elements;

inline constexpr size_t kTiedTensor = 0;  // wte, where it is tied to the head, is the table's first tensor

inline Elements tied_elements(const model::ParameterTable& table) {
  return {table.entries[kTiedTensor].offset, table.entries[kTiedTensor].count};
}

struct PackedSums {
  // `tokens` of a microbatch. `ops` and `model` outlive it.
  PackedSums(kernels::DeviceOps& ops, model::Gpt2& gpt, WireType wire_type, int64_t tokens)
      : model(gpt),
        wire(wire_type),
        values(ops, static_cast<size_t>(gpt.table().total) * sum_bytes(wire_type)),
        rows(ops, wire_type, gpt.table().ties_head() ? tokens : 0, gpt.table().ties_head() ? gpt.config().vocab_size : 0,
             gpt.config().n_embd) {}

  size_t bytes_of(int64_t elements) const { return static_cast<size_t>(elements) * sum_bytes(wire); }
  void move_rows_to_values() { rows.move_to(values.data<std::byte>() + bytes_of(tied_elements(model.table()).first)); }

  model::Gpt2& model;
  WireType wire;
  model::DeviceBuffer values;  // int32, int16 or float, one for each parameter, in the table's order
  SparseRows rows;
};

}  // namespace holdfast::worker
