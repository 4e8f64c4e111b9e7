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
  const model::ParameterTable table(config);
  const size_t before = table.first_of_layer(0), begin = table.first_of_layer(layers.first),
               end = table.first_of_layer(layers.end);
  const bool has_last = layers.end == config.n_layer;
  double elements = 0, largest = 0;
  for (size_t i = 0; i < table.entries.size(); ++i) {
    const auto count = static_cast<double>(table.entries[i].count);
    largest = std::max(largest, count);
    if (i < before && layers.first == 0) elements += count;
    if (i >= begin && (i < end || has_last)) elements += count;
    if (i == table.head && table.ties_head() && has_last) elements += count;
  }
  return {.weights = elements * weight_bytes, .reading = 3 * largest * static_cast<double>(sizeof(float))};
}

tl::expected<int64_t, std::string> pages_within(const MemoryLimit& limit, const ReplicaMemory& memory) {
  if (limit.bytes == 0) return memory.most_pages;
  const auto models = static_cast<double>(memory.models);
  const double fixed = rendezvous::kProgramBytes + memory.reading + models * memory.weights;
  const double least = fixed + models * memory.page * static_cast<double>(memory.fewest_pages);
  if (least > limit.bytes) {
    const double program = rendezvous::kProgramBytes + memory.reading;
    const std::string needed = fmt::format(
        "{}the program and what reading takes {:.2f} GiB, weights {:.2f} GiB in {}, keys and values of one text {:.2f} GiB",
        memory.models > 1 ? "two checkpoints at once: " : "", program / kGib, models * memory.weights / kGib, memory.precision,
        models * memory.page * static_cast<double>(memory.fewest_pages) / kGib);
    return tl::unexpected(fmt::format(
        "a replica needs {:.2f} GiB of the host's memory ({}), which is above {}: choose a --precision of fewer bits, more "
        "--stages, {}a smaller model or a worker with more memory",
        least / kGib, needed, limit.name, memory.models > 1 ? "no --follow, " : ""));
  }
  const double fitting = (limit.bytes - fixed) / models / memory.page;
  return std::min(memory.most_pages, static_cast<int64_t>(fitting));
}

}  // namespace holdfast::worker
