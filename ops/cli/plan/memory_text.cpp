#include "ops/cli/plan/memory_text.h"

#include <fmt/format.h>

#include "ops/cli/command/api.h"
#include "ops/cli/terminal/format.h"
#include "ops/cli/terminal/quantities.h"
#include "ops/cli/terminal/table.h"
#include "rendezvous/plan/memory.h"

namespace holdfast::ops {
namespace {

using rendezvous::MemoryPart;
using rendezvous::MemoryPlace;

// Bytes where a worker has them: on a GPU, on the host beside it, on the host of a CPU's worker.
struct PlacesInMemory {
  double gpu = 0, beside = 0, cpu = 0;
  void add(const PlacesInMemory& more) {
    gpu += more.gpu;
    beside += more.beside;
    cpu += more.cpu;
  }
};

PlacesInMemory places_of(const MemoryPart& part) {
  switch (part.place) {
    case MemoryPlace::kDevice:
      return {part.bytes, 0, part.bytes};
    case MemoryPlace::kGpu:
      return {part.bytes, 0, 0};
    case MemoryPlace::kStaging:
      return {0, part.bytes, 0};
    case MemoryPlace::kHost:
    case MemoryPlace::kPassing:
      break;
  }
  return {0, part.bytes, part.bytes};
}

const char* place_name(MemoryPlace place) {
  switch (place) {
    case MemoryPlace::kDevice:
      return "device";
    case MemoryPlace::kGpu:
      return "gpu";
    case MemoryPlace::kStaging:
      return "staging";
    case MemoryPlace::kHost:
      return "host";
    case MemoryPlace::kPassing:
      break;
  }
  return "passing";
}

Json places_json(const std::vector<MemoryPart>& parts, const PlacesInMemory& always, const PlacesInMemory& most) {
  Json rows = Json::array();
  for (const MemoryPart& part : parts) {
    rows.push_back({{"name", part.name}, {"place", place_name(part.place)}, {"bytes", part.bytes}, {"less", part.less}});
  }
  const auto of = [](const PlacesInMemory& places) {
    return Json{{"gpu_bytes", places.gpu}, {"gpu_host_bytes", places.beside}, {"cpu_bytes", places.cpu}};
  };
  return {{"parts", std::move(rows)}, {"always", of(always)}, {"most", of(most)}};
}

void add_row(Table& table, const std::string& name, const PlacesInMemory& bytes, const std::string& less) {
  const auto cell = [](double count) { return count > 0 ? bytes_text(count) : "-"; };
  table.add({name, cell(bytes.gpu), cell(bytes.beside), cell(bytes.cpu), less});
}

std::string model_text(const rendezvous::PlanInputs& inputs) {
  return fmt::format("A worker of a model of {} parameters, {} x {} tokens a microbatch, {} on the wire",
                     count_text(rendezvous::parameter_counts(inputs.model).total), inputs.batch_size, inputs.model.block_size,
                     inputs.wire.name);
}

std::string verdict(const rendezvous::PlanInputs& inputs, const PlacesInMemory& most) {
  if (inputs.device_memory <= 0) return "";
  const bool fits = most.gpu <= inputs.device_memory;
  return fmt::format("A GPU of {} {}.\n", bytes_text(inputs.device_memory), fits ? "holds it" : "does not hold it");
}

}  // namespace

void print_memory(const Options& options, const rendezvous::PlanInputs& inputs) {
  const std::vector<MemoryPart> parts = rendezvous::memory_parts(inputs);
  PlacesInMemory always, most;
  for (const MemoryPart& part : parts) {
    if (part.place != MemoryPlace::kPassing) always.add(places_of(part));
    most.add(places_of(part));
  }
  if (options.json) return print_json(places_json(parts, always, most));
  fmt::print("{}:\n\n", model_text(inputs));
  Table table({"PART", Column("ON A GPU").right(), Column("ITS HOST").right(), Column("ON A CPU").right(),
               Column("LESS WITH").shrinks(1, 12)});
  for (const MemoryPart& part : parts) add_row(table, part.name, places_of(part), part.less);
  add_row(table, "all the time", always, "");
  add_row(table, "at most", most, "");
  table.print(options.wide);
  fmt::print("\n{}Rank 0 alone writes checkpoints. Beside this is the scratch of the ops, on a GPU some 300 MB.\n",
             verdict(inputs, most));
}

}  // namespace holdfast::ops
