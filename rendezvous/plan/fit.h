// Whether a job fits the memory of its workers, and the first division of its state (`shard`) that does.
//
// A job is counted with the fewest workers that it may have (min_nodes): then each of them holds most of what is divided; and
// what is of all of them with its nominal number (nodes). Promises: pure; a job that a worker takes by refusal_for_memory
// (worker/session/memory_limit.h) is one that fits by the same count.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "rendezvous/plan/memory.h"
#include "rendezvous/protocol/job_spec.h"

namespace holdfast::rendezvous {

// A worker without a job, the ops' scratch, and what packs a checkpoint's shards: 170 MB measured, with one thread.
inline constexpr double kProgramBytes = 192 << 20;

// From the one that divides nothing to the one that divides all.
inline constexpr std::array kShards = {"none", "optimizer", "gradients", "parameters"};

// The parts that lie in the host's memory. `on_host`: the device's memory is the host's; else there is a GPU's beside it.
std::vector<MemoryPart> parts_on_host(const JobSpec& spec, int64_t workers, bool on_host);
// Bytes of the host's memory, of a GPU's.
double host_memory_needed(const JobSpec& spec, int64_t workers, bool on_host);
double gpu_memory_needed(const JobSpec& spec, int64_t workers);

struct WorkerMemory {
  std::string name;     // of the worker
  double host = 0;      // bytes that it may take; 0: no limit
  double gpu = 0;       // bytes of its GPU; 0: it computes on the host, or it does not say
  bool on_host = true;  // the device's memory is the host's
};

// "with 2 workers none needs 3.10 GiB, and w2 may take 2.50 GiB", of the first worker that the job does not fit; "": it fits
// all.
std::string misfit(const JobSpec& spec, std::span<const WorkerMemory> workers);

struct ShardChoice {
  std::string shard;
  std::string why;  // "with 2 workers none needs 3.10 GiB, and w2 may take 2.50 GiB"
};
// The first of kShards that fits all of the workers that any of them fits; where it fits nobody, the one that needs least.
// `spec` leaves the choice (shard auto). At least one worker.
ShardChoice choose_shard(const JobSpec& spec, std::span<const WorkerMemory> workers);

}  // namespace holdfast::rendezvous
