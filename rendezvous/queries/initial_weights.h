// The job whose weights another begins with or serves (init_from job:ID[@STEP]), looked up once, when that one is submitted.
//
// Thread: the owner's. Reads the catalogue, nothing from disk.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "rendezvous/coordinator/coordinator.h"
#include "rendezvous/coordinator/refusal.h"

namespace holdfast::rendezvous {

// `request`: a job's fields as they were sent. Sizes of the model that it leaves open, and whether its head is tied, become
// those of the job that it names in init_from; unchanged where it names none, or one that is not there.
nlohmann::json with_sizes_of_named_job(const Coordinator& state, const nlohmann::json& request);

// Says in the spec which checkpoint it is: of the named step or the newest one, and where its objects are. Refuses a job that
// is not there, has no such checkpoint, has a model of other sizes, or with a head of its own
// where this job's is tied. Anything else in init_from is left as it is.
OrRefusal<void> pin_initial_weights(const Coordinator& state, JobSpec& spec);

// The tokenizer's folder of a job that serves another's checkpoints, where it is left open: that of the other's training data.
// Refuses one whose training data is in a data set.
OrRefusal<void> find_tokenizer(const Coordinator& state, JobSpec& spec);

}  // namespace holdfast::rendezvous
