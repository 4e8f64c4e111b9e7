// The memory that a worker may take, and whether a job fits it: asked before any is taken, for the kernel kills whoever passes
// a limit that it watches.
//
// Promises: pure but for the files that `memory_limit` reads. Thread: any.
#pragma once

#include <string>

#include "rendezvous/protocol/job_spec.h"

namespace holdfast::worker {

struct MemoryLimit {
  double bytes = 0;  // of the host's memory; 0: none is known
  std::string name;  // its source: "--memory_gib 2"
};
// The lower one of `gib` (0: not given) and of the limits of this process's memory cgroup and those around it (version 2),
// whose files are below `cgroups`; `own` says which it is in.
MemoryLimit memory_limit(double gib, const std::string& cgroups = "/sys/fs/cgroup",
                         const std::string& own = "/proc/self/cgroup");

// Why a worker must not take the job: with as few workers as it may have (min_nodes) it would need more than the limit. The
// sentence says how much, for what most, and what would fit. "" where it fits, and where there is no limit. `on_host`: the
// device's memory is the host's.
std::string refusal_for_memory(const rendezvous::JobSpec& spec, bool on_host, const MemoryLimit& limit);
// Why it cannot take the job, where the system has given it no memory: how much it needs, and what to look at.
std::string no_memory_given(const rendezvous::JobSpec& spec, bool on_host);

}  // namespace holdfast::worker
