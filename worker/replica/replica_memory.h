// The memory of a replica: whether its model fits what the worker may take, and how many pages of keys and values do beside it.
// Asked before any is taken, as for a job that trains (worker/session/memory_limit.h). Pure. Thread: any.
#pragma once

#include <cstdint>
#include <string>
#include <tl/expected.hpp>

#include "model/decode/decoder.h"
#include "worker/session/memory_limit.h"

namespace holdfast::worker {

struct ReplicaMemory {
  double weights = 0;                        // bytes of them, of the layers that are here
  double reading = 0;                        // bytes that are needed while they are read
  double page = 0;                           // bytes of a page, in these layers
  int64_t fewest_pages = 0, most_pages = 0;  // one text's; as many as are of use
  int64_t models = 1;                        // at once: two where a newer checkpoint takes the place of another
  std::string precision = {};
};

// `weight_bytes`: of an element of a matrix, as it is kept.
ReplicaMemory replica_memory(const model::Gpt2Config& config, model::LayerRange layers, double weight_bytes);

// The pages that each model may have. Error: why the worker must not take the job, and what would fit.
tl::expected<int64_t, std::string> pages_within(const MemoryLimit& limit, const ReplicaMemory& memory);

}  // namespace holdfast::worker
