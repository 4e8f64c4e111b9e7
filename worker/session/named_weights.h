// The weights that a job names in init_from: of another job, in a store, or in a folder or file of this worker.
//
// Errors are sentences for the user. Refuses what open_initial_weights does. Thread: any.
#pragma once

#include <string>
#include <tl/expected.hpp>

#include "model/exchange/initial_weights.h"
#include "rendezvous/protocol/job_spec.h"
#include "worker/session/data_sets.h"

namespace holdfast::worker {

model::Gpt2Config model_config(const rendezvous::JobSpec& spec);

// `init_from`: as initial_source.h has it.
tl::expected<model::InitialWeights, std::string> named_weights(const std::string& init_from, const model::Gpt2Config& config,
                                                               const DataPlaces& places);

}  // namespace holdfast::worker
