#include "worker/replica/replica_memory.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/parameter_table.h"
#include "rendezvous/plan/fit.h"

namespace holdfast::worker {
namespace {

constexpr double kGib = 1 << 30;

}  // namespace

// A tied head is kept beside the embedding's rows.
ReplicaMemory replica_memory(const model::Gpt2Config& config, model::LayerRange layers, double weight_bytes) {
  constexpr size_t kBeforeLayers = 2, kTensorsOfALayer = 12;  // as model/parameter_table.h has them
  const model::ParameterTable table(config);
  const auto end_of = [&](int64_t layer) { return kBeforeLayers + static_cast<size_t>(layer) * kTensorsOfALayer; };
  double elements = 0, largest = 0;
  for (size_t i = 0; i < table.entries.size(); ++i) {
    const auto count = static_cast<double>(table.entries[i].count);
    largest = std::max(largest, count);
    const bool is_of_layers = i >= kBeforeLayers && i < end_of(config.n_layer);
    if (is_of_layers && i >= end_of(layers.first) && i < end_of(layers.end)) elements += count;
    if (is_of_layers) continue;
    const bool is_head = layers.end == config.n_layer && (i >= end_of(config.n_layer) || (i == 0 && table.ties_head()));
    if (is_head) elements += count;
    if (layers.first == 0 && i < kBeforeLayers) elements += count;
  }
  return {.weights = elements * weight_bytes, .reading = 3 * largest * static_cast<double>(sizeof(float))};
}

tl::expected<int64_t, std::string> pages_within(const MemoryLimit& limit, const ReplicaMemory& memory) {
  if (limit.bytes == 0) return memory.most_pages;
  const auto models = static_cast<double>(memory.models);
  const double fixed = rendezvous::kProgramBytes + memory.reading + models * memory.weights;
  const double least = fixed + models * memory.page * static_cast<double>(memory.fewest_pages);
  if (least > limit.bytes) {
    return tl::unexpected(
        fmt::format("a replica needs {:.2f} GiB of the host's memory ({}the program and what reading takes {:.2f} GiB, weights "
                    "{:.2f} GiB in {}, "
                    "keys and values of one text {:.2f} GiB), which is above {}: choose a --precision of fewer bits, more "
                    "--stages, {}a smaller "
                    "model or a worker with more memory",
                    least / kGib, memory.models > 1 ? "two checkpoints at once: " : "",
                    (rendezvous::kProgramBytes + memory.reading) / kGib, models * memory.weights / kGib, memory.precision,
                    models * memory.page * static_cast<double>(memory.fewest_pages) / kGib, limit.name,
                    memory.models > 1 ? "no --follow, " : ""));
  }
  const double fitting = (limit.bytes - fixed) / models / memory.page;
  return std::min(memory.most_pages, static_cast<int64_t>(fitting));
}

}  // namespace holdfast::worker
