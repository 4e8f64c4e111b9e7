#include "rendezvous/plan/memory.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/activations.h"

namespace holdfast::rendezvous {
namespace {

constexpr double kFloat = 4;             // bytes
constexpr double kBucketElements = 2e6;  // at most about so many (worker/gradients/buckets.h)
constexpr int64_t kUsualReplicas = 2;
constexpr int64_t kHeadRows = 512;  // of the embedding's gradient, which a CPU has apart from the rest (kernels/cpu/head.cpp)

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

// Rows of a tied embedding that are gathered from all ranks (worker/gradients/sparse_rows.h).
double rows_of(const PlanInputs& inputs) {
  if (inputs.sync_every > 1 || !inputs.model.ties_head) return 0;
  const int64_t elements = inputs.batch_size * inputs.model.block_size * inputs.model.n_embd;
  if (inputs.scatters_gradients) return static_cast<double>(elements) * inputs.wire.bytes_per_element;  // its own alone
  return static_cast<double>(inputs.workers * elements) * kFloat;
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

// The share of what is divided that a worker keeps.
double share_of_state(const PlanInputs& inputs, int64_t replicas) {
  if (replicas == 0 || replicas >= inputs.workers) return 1;
  return static_cast<double>(replicas) / static_cast<double>(inputs.workers);
}

std::string less_state(const PlanInputs& inputs, double bytes) {
  if (inputs.replicas != 0 || inputs.sync_every > 1 || inputs.workers <= kUsualReplicas) return "";
  return fmt::format("--shard optimizer: {:.0f} MB", bytes * share_of_state(inputs, kUsualReplicas) / 1e6);
}

// Of the whole model; or of a layer's largest part, or of as much of the embedding and the head
// (model::Gradients::kByRange).
double gradients_of(const PlanInputs& inputs) {
  const ParameterCounts counts = parameter_counts(inputs.model);
  if (!inputs.scatters_gradients) return kFloat * static_cast<double>(counts.total);
  const int64_t rows = std::max(inputs.model.block_size, std::min(inputs.model.vocab_size, kHeadRows));
  const int64_t C = inputs.model.n_embd, attention = 4 * C * C + 6 * C;  // and ln_1
  return kFloat * static_cast<double>(std::max(attention, rows * C));
}

std::string less_gradients(const PlanInputs& inputs) {
  PlanInputs scattered = inputs;
  scattered.scatters_gradients = true;
  if (inputs.scatters_gradients || inputs.sync_every > 1 || inputs.workers <= kUsualReplicas) return "";
  return fmt::format("--shard gradients: {:.0f} MB", gradients_of(scattered) / 1e6);
}

// A bucket of gradients on its way: packed, and as the ring leaves it.
double bucket_of(const PlanInputs& inputs) {
  return kBucketElements * 2 * inputs.wire.bytes_per_element;
}

// A worker's own; where gradients are scattered, what it owns, and a bucket.
double sums_of(const PlanInputs& inputs) {
  const auto P = static_cast<double>(parameter_counts(inputs.model).total);
  if (!inputs.scatters_gradients) return P * reduction_bytes(inputs.wire);
  return P * inputs.wire.bytes_per_element * share_of_state(inputs, inputs.replicas) + bucket_of(inputs);
}

std::string less_sums(const WireType& wire) {
  if (wire.all_to_all_first) return "another --wire_dtype: a third";
  return wire.name == "int32" ? "--wire_dtype int16: half" : "";
}

// worker::LocalSteps: the parameters before the step and two moments and, of more than one microbatch, their sum.
double local_steps_of(const PlanInputs& inputs) {
  return (inputs.accumulation > 1 ? 4 : 3) * kFloat * static_cast<double>(parameter_counts(inputs.model).total);
}

// All that is in no layer, and two layers.
double outside_and_layers(const model::Gpt2Config& model) {
  const ParameterCounts counts = parameter_counts(model);
  return static_cast<double>(counts.total - std::max<int64_t>(model.n_layer - 2, 0) * counts.layer);
}

}  // namespace

std::vector<MemoryPart> memory_parts(const PlanInputs& inputs) {
  using enum MemoryPlace;
  const double P = static_cast<double>(parameter_counts(inputs.model).total), sums = sums_of(inputs);
  // Parameters are divided with their moments where passes read copies.
  const bool apart = inputs.activation_bytes < kFloat || inputs.scatters_parameters || inputs.offloads;
  const MemoryPlace kept = inputs.offloads ? kHost : kDevice;
  const double parameters = apart ? share_of_state(inputs, inputs.replicas) : 1;
  std::vector<MemoryPart> parts = {{"parameters", kept, P * kFloat * parameters, apart ? less_state(inputs, P * kFloat) : ""},
                                   {"gradients", kDevice, gradients_of(inputs), less_gradients(inputs)},
                                   {"AdamW's two moments", kept, 2 * P * kFloat * share_of_state(inputs, inputs.replicas),
                                    less_state(inputs, 2 * P * kFloat)},
                                   {"sums of the reduction", kDevice, sums, less_sums(inputs.wire)}};
  if (inputs.sync_every > 1) parts.push_back({"local steps", kDevice, local_steps_of(inputs), "--sync_every 1: none"});
  if (inputs.scatters_gradients) {
    const auto head = static_cast<double>(parameter_counts(inputs.model).embedding);
    parts.push_back({inputs.model.ties_head ? "gradient of the embedding" : "gradient of the head", kGpu, kFloat * head, ""});
  }
  const auto element = static_cast<double>(inputs.activation_bytes);
  if (inputs.scatters_parameters) {
    parts.push_back({"parameters of two layers, to compute with", kDevice, element * outside_and_layers(inputs.model), ""});
  } else if (apart) {
    const bool is_half = element < kFloat;
    parts.push_back({is_half ? "parameters of 16 bits, to compute with" : "parameters to compute with", kDevice, P * element,
                     is_half && !inputs.offloads ? "--dtype float32: none" : ""});
  }
  parts.push_back({"activations of a microbatch", kDevice, activations_of(inputs), less_activations(inputs)});
  if (rows_of(inputs) > 0) {
    parts.push_back({"rows of the embedding, of all nodes", kDevice, rows_of(inputs), "a smaller --batch_size"});
  }
  if (inputs.scatters_gradients) {
    parts.push_back({"copies for the ring", kStaging, bucket_of(inputs), ""});
  } else if (inputs.workers > 1) {
    parts.push_back({"copies for the ring", kStaging, P * kFloat + sums, less_sums(inputs.wire)});
  }
  // Of a divided state each worker writes a part.
  const double written = inputs.replicas == 0 ? 1 : 1 / static_cast<double>(inputs.workers);
  parts.push_back({"a checkpoint, or a state that is handed over", kPassing, 3 * P * kFloat * written, ""});
  return parts;
}

double device_memory_needed(const PlanInputs& inputs) {
  double bytes = 0;
  for (const MemoryPart& part : memory_parts(inputs)) {
    if (part.place == MemoryPlace::kDevice || part.place == MemoryPlace::kGpu) bytes += part.bytes;
  }
  return bytes;
}

}  // namespace holdfast::rendezvous
