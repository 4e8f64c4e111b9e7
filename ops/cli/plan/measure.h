// How long a microbatch takes on this machine's processors.
#pragma once

#include <string>

#include "rendezvous/protocol/job_spec.h"

namespace holdfast::ops {

struct DeviceSpeed {
  double microbatch_s;  // forward and backward of spec.batch_size sequences
  std::string source;   // "measured on this machine's processors, 2 threads, 7 microbatches"
};

// Trains on microbatches of made-up tokens for about `seconds` with the cpu ops; the median pass. No optimizer, no packing.
DeviceSpeed measured_here(const rendezvous::JobSpec& spec, int threads, double seconds);

}  // namespace holdfast::ops
