#include "rendezvous/plan/memory.h"

#include <fmt/format.h>

#include "model/activations.h"

namespace holdfast::rendezvous {
namespace {

constexpr double kFloat = 4;  // bytes

// Bytes of a parameter for the reduction: the exact one's sums have the width of the wire, the float one's are float32, and
// int8 keeps its rounding errors as well.
double reduction_bytes(const WireType& wire) {
  if (wire.name == "int16") return 2;
  return wire.all_to_all_first ? 12 : 4;
}

double activations_of(const PlanInputs& inputs) {
  const auto element = static_cast<size_t>(inputs.activation_bytes);
  return static_cast<double>(model::Activations::bytes_needed(inputs.model, element, inputs.batch_size, inputs.recompute));
}

// Rows of the embedding that are gathered from all ranks (worker/gradients/sparse_rows.h).
double rows_of(const PlanInputs& inputs) {
  if (inputs.sync_every > 1) return 0;
  return static_cast<double>(inputs.workers * inputs.batch_size * inputs.model.block_size * inputs.model.n_embd) * kFloat;
}

std::string with(const PlanInputs& inputs, const char* setting, double bytes) {
  if (bytes >= activations_of(inputs)) return "";
  return fmt::format("{}: {:.0f} MB", setting, bytes / 1e6);
}

std::string less_activations(const PlanInputs& inputs) {
  PlanInputs recomputed = inputs, alone = inputs;
  recomputed.recompute = model::Recompute::kBlock;
  alone.batch_size = 1;
  const std::string by_recompute = with(inputs, "--recompute block", activations_of(recomputed));
  const std::string by_batch = with(inputs, "--batch_size 1", activations_of(alone));
  return by_recompute + (by_recompute.empty() || by_batch.empty() ? "" : ", ") + by_batch;
}

std::string less_sums(const WireType& wire) {
  if (wire.all_to_all_first) return "another --wire_dtype: a third";
  return wire.name == "int32" ? "--wire_dtype int16: half" : "";
}

}  // namespace

std::vector<MemoryPart> memory_parts(const PlanInputs& inputs) {
  using enum MemoryPlace;
  const double P = static_cast<double>(parameter_counts(inputs.model).total), sums = P * reduction_bytes(inputs.wire);
  std::vector<MemoryPart> parts = {{"parameters", kDevice, P * kFloat, ""},
                                   {"gradients", kDevice, P * kFloat, ""},
                                   {"AdamW's two moments", kDevice, 2 * P * kFloat, ""},
                                   {"sums of the reduction", kDevice, sums, less_sums(inputs.wire)}};
  const auto element = static_cast<double>(inputs.activation_bytes);
  if (element < kFloat)
    parts.push_back({"parameters of 16 bits, to compute with", kDevice, P * element, "--dtype float32: none"});
  parts.push_back({"activations of a microbatch", kDevice, activations_of(inputs), less_activations(inputs)});
  if (rows_of(inputs) > 0) {
    parts.push_back({"rows of the embedding, of all nodes", kDevice, rows_of(inputs), "a smaller --batch_size"});
  }
  if (inputs.workers > 1) parts.push_back({"copies for the ring", kStaging, P * kFloat + sums, less_sums(inputs.wire)});
  parts.push_back({"a checkpoint, or a state that is handed over", kPassing, 3 * P * kFloat, ""});
  return parts;
}

double device_memory_needed(const PlanInputs& inputs) {
  double bytes = 0;
  for (const MemoryPart& part : memory_parts(inputs)) bytes += part.place == MemoryPlace::kDevice ? part.bytes : 0;
  return bytes;
}

}  // namespace holdfast::rendezvous
