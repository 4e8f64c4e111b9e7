// The speed of the workers and of the link between them, as far as the jobs that they have trained tell it.
//
// Of jobs that ran on other devices than those that are there now nothing is taken. Thread: the owner's.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rendezvous/coordinator/coordinator.h"
#include "rendezvous/plan/model.h"

namespace holdfast::rendezvous {

// A number with the words that say where it is from; 0: nothing tells it.
struct Known {
  double value = 0;
  std::string source;
  bool is_a_share = false;  // of memory: of what others use, too
};
struct KnownSpeed {
  Known microbatch_s;  // of spec.batch_size sequences
  Known link_bytes_per_s;
};
// Each of the newest job of this model, block size, type of activations and `recompute` whose steps tell it (plan/measured.h).
KnownSpeed known_speed(Coordinator& state, const JobSpec& spec, double round_trip_s);

// Memory of the smallest device, in bytes, among the workers that are there and satisfy what the job requires; 0 for none. On a
// processor the memory is everybody's: a worker there counts with half of its node's, shared among the node's workers.
Known smallest_memory(const Coordinator& state, const Labels& requirements);

}  // namespace holdfast::rendezvous
