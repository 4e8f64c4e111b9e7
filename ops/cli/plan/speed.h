// How long a microbatch takes on one device: measured here, or taken from the metrics of a job that the service knows.
//
// Promises: the seconds come with the words that say where they are from.
// Refuses to guess: without a job of the same model, type and recomputing there is no answer, only what to give.
#pragma once

#include <string>
#include <tl/expected.hpp>

#include "ops/cli/command/api.h"
#include "rendezvous/protocol/job_spec.h"

namespace holdfast::ops {

struct DeviceSpeed {
  double microbatch_s;  // forward and backward of spec.batch_size sequences
  std::string source;   // "measured by job j7: ..."
};

// Trains on microbatches of made-up tokens for about `seconds` with the cpu ops; the median pass. No optimizer, no packing.
DeviceSpeed measured_here(const rendezvous::JobSpec& spec, int threads, double seconds);

// Of the newest job of this model, block size, type of activations and `recompute` whose metrics say it: rank 0's time for a
// step without its waiting for the ring, over the microbatches it computed (so the optimizer is in it), scaled to this batch
// size. The error says why there is none.
tl::expected<DeviceSpeed, std::string> speed_of_jobs(const Options& options, const rendezvous::JobSpec& spec);

// The pure part of it: `points` and `ledger` as /v1/jobs/{id}/metrics and /ledger give them; 0 when they do not say it.
double microbatch_seconds(const Json& points, const Json& ledger);

}  // namespace holdfast::ops
