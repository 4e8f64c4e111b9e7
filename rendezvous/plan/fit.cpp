#include "rendezvous/plan/fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "rendezvous/plan/settings.h"
#include "rendezvous/text/plural.h"

namespace holdfast::rendezvous {
namespace {

constexpr double kGib = 1 << 30;
// The scratch of a GPU's ops and libraries, and its runtime.
constexpr double kGpuProgram = 768 << 20;

JobSpec divided(const JobSpec& spec, const char* shard) {
  JobSpec other = spec;
  other.shard = shard;
  return other;
}

PlanInputs inputs_with(const JobSpec& spec, int64_t workers) {
  auto inputs = inputs_of(spec, to_json(spec));
  inputs.workers = workers;
  return inputs;
}

// Each part as large as it is with so many workers, or with the nominal number of them: a part of what is divided is larger
// with fewer, and what is of all of them with more.
std::vector<MemoryPart> largest_parts(const JobSpec& spec, int64_t workers, bool on_host) {
  std::vector<MemoryPart> largest;
  for (const int64_t number : {workers, std::max(workers, spec.nodes)}) {
    auto inputs = inputs_with(spec, number);
    inputs.offloads = inputs.offloads && !on_host;
    for (MemoryPart& part : memory_parts(inputs)) {
      const auto known = std::ranges::find(largest, part.name, &MemoryPart::name);
      if (known == largest.end()) {
        largest.push_back(std::move(part));
      } else if (part.bytes > known->bytes) {
        *known = std::move(part);
      }
    }
  }
  return largest;
}

// An offloaded state is a divided one.
std::span<const char* const> shards_of(const JobSpec& spec) {
  return std::span(kShards).subspan(spec.offload == "none" ? 0 : 1);
}

struct Lack {  // of memory
  double needed = 0, there = 0;
  bool of_gpu = false;
};

// nullopt: it fits.
std::optional<Lack> lack_of(const JobSpec& spec, const WorkerMemory& worker) {
  const double host = worker.host > 0 ? host_memory_needed(spec, spec.min_nodes, worker.on_host) : 0;
  if (host > worker.host) return Lack{host, worker.host};
  const double gpu = worker.gpu > 0 ? gpu_memory_needed(spec, spec.min_nodes) : 0;
  if (gpu > worker.gpu) return Lack{gpu, worker.gpu, true};
  return std::nullopt;
}

std::string in_words(const JobSpec& spec, const Lack& lack, const std::string& worker) {
  return fmt::format("with {} {} needs {:.2f} GiB, and {} {} {:.2f} GiB", counted(spec.min_nodes, "worker"), spec.shard,
                     lack.needed / kGib, worker, lack.of_gpu ? "has a GPU of" : "may take", lack.there / kGib);
}

std::vector<WorkerMemory> that_some_fit(const JobSpec& spec, std::span<const WorkerMemory> workers) {
  std::vector<WorkerMemory> able;
  std::ranges::copy_if(workers, std::back_inserter(able), [&](const WorkerMemory& worker) {
    return std::ranges::any_of(shards_of(spec), [&](const char* shard) { return !lack_of(divided(spec, shard), worker); });
  });
  return able;
}

}  // namespace

std::vector<MemoryPart> parts_on_host(const JobSpec& spec, int64_t workers, bool on_host) {
  auto parts = largest_parts(spec, workers, on_host);
  std::erase_if(parts, [&](const MemoryPart& part) {
    return part.place == MemoryPlace::kGpu || part.place == (on_host ? MemoryPlace::kStaging : MemoryPlace::kDevice);
  });
  return parts;
}

double host_memory_needed(const JobSpec& spec, int64_t workers, bool on_host) {
  double bytes = kProgramBytes;
  for (const MemoryPart& part : parts_on_host(spec, workers, on_host)) bytes += part.bytes;
  return bytes;
}

double gpu_memory_needed(const JobSpec& spec, int64_t workers) {
  double bytes = kGpuProgram;
  for (const MemoryPart& part : largest_parts(spec, workers, false)) {
    if (part.place == MemoryPlace::kDevice || part.place == MemoryPlace::kGpu) bytes += part.bytes;
  }
  return bytes;
}

std::string misfit(const JobSpec& spec, std::span<const WorkerMemory> workers) {
  for (const WorkerMemory& worker : workers) {
    if (const auto lack = lack_of(spec, worker)) return in_words(spec, *lack, worker.name);
  }
  return "";
}

ShardChoice choose_shard(const JobSpec& spec, std::span<const WorkerMemory> workers) {
  if (!spec.may_be_divided()) {
    return {"none", spec.reduction != "exact" ? fmt::format("with reduction {} the state cannot be divided", spec.reduction)
                                              : "with sync_every above 1 the state cannot be divided"};
  }
  const std::vector<WorkerMemory> able = that_some_fit(spec, workers);
  if (able.empty()) {
    const JobSpec least = divided(spec, kShards.back());
    return {least.shard, misfit(least, workers) + ", which is too little for any"};
  }
  std::string why;  // not the ones before
  for (const char* shard : shards_of(spec)) {
    const JobSpec tried = divided(spec, shard);
    const std::string lack = misfit(tried, able);
    if (lack.empty())
      return {shard,
              why.empty() ? fmt::format("it fits the memory of {}", able.size() == 1 ? able[0].name : "all workers") : why};
    why = lack;
  }
  // Hosts and GPUs may have room for different divisions: the one that fits most of the workers.
  const auto fits = [&](const char* shard) {
    return std::ranges::count_if(able, [&](const WorkerMemory& worker) { return !lack_of(divided(spec, shard), worker); });
  };
  return {*std::ranges::max_element(shards_of(spec), {}, fits), why};
}

}  // namespace holdfast::rendezvous
