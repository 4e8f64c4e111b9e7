#include "rendezvous/plan/memory.h"

#include "model/activations.h"

namespace holdfast::rendezvous {
namespace {

// Bytes of a parameter: itself, its gradient and AdamW's two moments, in float32.
constexpr double kStateBytes = 16;

// Bytes of a parameter for the reduction: the exact one's sums have the width of the wire, the float one's are float32, and
// int8 keeps its rounding errors as well.
double reduction_bytes(const WireType& wire) {
  if (wire.name == "int16") return 2;
  return wire.all_to_all_first ? 12 : 4;
}

}  // namespace

double device_memory_needed(const PlanInputs& inputs) {
  const auto parameters = static_cast<double>(parameter_counts(inputs.model).total);
  const double cast_bytes = inputs.activation_bytes < 4 ? static_cast<double>(inputs.activation_bytes) : 0;
  const auto activation_bytes = static_cast<size_t>(inputs.activation_bytes);
  const auto activations = static_cast<double>(
      model::Activations::bytes_needed(inputs.model, activation_bytes, inputs.batch_size, inputs.recompute));
  const double rows = inputs.sync_every > 1 ? 0
                                            : static_cast<double>(inputs.nodes * inputs.batch_size * inputs.model.block_size) *
                                                  static_cast<double>(inputs.model.n_embd) * 4;
  return parameters * (kStateBytes + reduction_bytes(inputs.wire) + cast_bytes) + activations + rows;
}

}  // namespace holdfast::rendezvous
