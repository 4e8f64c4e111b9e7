// How much memory a worker needs for a job, by what it holds (worker/session/session.h, worker/state, worker/checkpoints).
//
// Promises: pure. A model's own buffers are counted by the model itself. Left out: the scratch of the ops and of
// their libraries, some hundred megabytes on a GPU, and the training data, which the system's page cache holds.
#pragma once

#include <string>
#include <vector>

#include "rendezvous/plan/model.h"

namespace holdfast::rendezvous {

// A GPU's worker has its device's memory and the host's beside it; a CPU's worker has only the host's, where its device is.
enum class MemoryPlace : uint8_t {
  kDevice,   // for as long as the worker is in the job
  kGpu,      // the same, of a GPU alone
  kStaging,  // of the host of a GPU alone, likewise
  kHost,     // of the host, GPU or not, likewise
  kPassing,  // of the host, GPU or not, while a checkpoint is written (rank 0; of a divided state all) or a state is handed
             // over or read
};

struct MemoryPart {
  std::string name;
  MemoryPlace place;
  double bytes;
  std::string less;  // settings that need less of it: "--recompute block: 34 MB"; "": none
};
std::vector<MemoryPart> memory_parts(const PlanInputs& inputs);

// Bytes of the worker's GPU: the parts of kDevice and kGpu.
double device_memory_needed(const PlanInputs& inputs);

}  // namespace holdfast::rendezvous
