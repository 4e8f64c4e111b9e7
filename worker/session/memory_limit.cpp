#include "worker/session/memory_limit.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "rendezvous/plan/fit.h"
#include "rendezvous/text/plural.h"

namespace holdfast::worker {
namespace {

using rendezvous::host_memory_needed;
using rendezvous::JobSpec;
using rendezvous::MemoryPart;

constexpr double kGib = 1 << 30;

// "0::/system.slice/holdfast-worker.service" is a group of version 2.
std::string group_in(const std::string& own) {
  std::ifstream file(own);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("0::/")) return line.substr(4);
  }
  return "";
}

// The lowest of the group and of those that it is in.
std::optional<double> limit_of_cgroups(const std::string& cgroups, const std::string& group) {
  std::optional<double> lowest;
  for (std::filesystem::path at = group;; at = at.parent_path()) {
    std::ifstream file(std::filesystem::path(cgroups) / at / "memory.max");
    if (double bytes = 0; file >> bytes) lowest = std::min(lowest.value_or(bytes), bytes);  // no number: "max"
    if (at.empty()) return lowest;
  }
}

// The fewest workers that it fits, up to the job's nominal number; 0: none.
int64_t fewest_workers(const JobSpec& spec, bool on_host, double limit) {
  for (int64_t workers = spec.min_nodes; workers <= spec.nodes; ++workers) {
    if (host_memory_needed(spec, workers, on_host) <= limit) return workers;
  }
  return 0;
}

// "gradients 0.46 GiB, …": the three that take most.
std::string largest_parts(const JobSpec& spec, bool on_host) {
  auto parts = rendezvous::parts_on_host(spec, spec.min_nodes, on_host);
  std::ranges::stable_sort(parts, std::greater{}, &MemoryPart::bytes);
  std::string text;
  for (size_t i = 0; i < std::min<size_t>(parts.size(), 3); ++i)
    text += fmt::format("{}{} {:.2f} GiB", i == 0 ? "" : ", ", parts[i].name, parts[i].bytes / kGib);
  return text;
}

// The first way to divide the state, from the one that the job has on, that fits.
std::string way_out(const JobSpec& spec, bool on_host, double limit) {
  const auto& ways = rendezvous::kShards;
  for (const auto* way = std::ranges::find(ways, spec.shard); way != ways.end(); ++way) {
    JobSpec other = spec;
    other.shard = *way;
    if (other.shard != spec.shard && !spec.may_be_divided()) break;
    const int64_t workers = fewest_workers(other, on_host, limit);
    if (workers == 0) continue;
    const std::string shard = other.shard == spec.shard ? "" : fmt::format("--shard {}", other.shard);
    const std::string nodes = workers == spec.min_nodes ? "" : fmt::format("--min_nodes {}", workers);
    return fmt::format("{}{}{} takes {:.2f} GiB", shard, shard.empty() || nodes.empty() ? "" : " ", nodes,
                       host_memory_needed(other, workers, on_host) / kGib);
  }
  return "choose a smaller --batch_size, --recompute block, more workers with --shard parameters, or a smaller model";
}

}  // namespace

MemoryLimit memory_limit(double gib, const std::string& cgroups, const std::string& own) {
  const auto of_group = limit_of_cgroups(cgroups, group_in(own));
  if (of_group && (gib == 0 || *of_group < gib * kGib))
    return {*of_group, fmt::format("its memory cgroup's limit of {:.2f} GiB", *of_group / kGib)};
  return gib == 0 ? MemoryLimit() : MemoryLimit{gib * kGib, fmt::format("--memory_gib {}", gib)};
}

std::string refusal_for_memory(const JobSpec& spec, bool on_host, const MemoryLimit& limit) {
  if (limit.bytes == 0) return "";
  const double bytes = host_memory_needed(spec, spec.min_nodes, on_host);
  if (bytes <= limit.bytes) return "";
  return fmt::format("with {} a worker of this job needs {:.2f} GiB of the host's memory ({}), which is above {}: {}",
                     rendezvous::counted(spec.min_nodes, "worker"), bytes / kGib, largest_parts(spec, on_host), limit.name,
                     way_out(spec, on_host, limit.bytes));
}

std::string no_memory_given(const JobSpec& spec, bool on_host) {
  return fmt::format(
      "the system gave no memory: with {} a worker of this job needs {:.2f} GiB of the host's ({}), and of a divided state it "
      "reserves the addresses of all. Raise what limits this process (ulimit -v, vm.overcommit_memory), free memory, or take a "
      "smaller batch_size",
      rendezvous::counted(spec.min_nodes, "worker"), host_memory_needed(spec, spec.min_nodes, on_host) / kGib,
      largest_parts(spec, on_host));
}

}  // namespace holdfast::worker
