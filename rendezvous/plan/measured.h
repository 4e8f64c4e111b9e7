// The speed of a device and of the link, from the steps that a job has done.
//
// Promises: pure. Medians over the job's steps but the first, which packs weights, faults in memory and chooses scales.
// Refuses to guess: 0 where the steps do not tell it.
#pragma once

#include <cstdint>
#include <span>

#include "rendezvous/plan/model.h"

namespace holdfast::rendezvous {

struct StepTime {
  double step_s = 0, communication_s = 0;  // of rank 0; the second is what it waited for the ring
  int64_t microbatches = 0;                // that rank 0 computed; 0: not known
  int64_t nodes = 0;                       // ranks; 0: not known
};

// Rank 0's time without its waiting for the ring, over its microbatches: so the optimizer is in it.
double microbatch_seconds(std::span<const StepTime> steps);

// Bytes a second each way: the bytes of a sync (model.h) over the time that rank 0 waited for it, less the round trips.
// `job`: the settings under which the steps were done. 0 with overlap, for then a part of the sync was hidden; and for steps
// of one node. A rank that is slower than rank 0 makes the link look slower than it is.
double link_rate(std::span<const StepTime> steps, const PlanInputs& job);

}  // namespace holdfast::rendezvous
