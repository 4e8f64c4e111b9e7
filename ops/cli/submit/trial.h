// A trial: a few steps of a job on the workers that are free, so that the service knows how fast these and their link are.
//
// Promises: the trial is a job like any other, named and labelled as a trial, and it keeps no checkpoint. It is ended when it
// has done its steps, when it takes too long, and on Ctrl-C; should this program die, the service ends it (max_runtime).
// Thread: the caller's, and one that waits for signals.
#pragma once

#include <cstdint>

#include "ops/cli/command/api.h"

namespace holdfast::ops {

inline constexpr int64_t kTrialWorkers = 2;  // fewer have no link between them

// The same model and microbatches for a few steps, one microbatch a worker, without overlap: the time that a rank waits for the
// ring is the whole sync then.
Json trial_spec(const Json& spec);

// The free workers that the trial could have, by the service's word. Throws the Failure of a spec that is wrong.
int64_t workers_for(Api& api, const Json& trial);

// Submits it, waits for its steps and ends it. Throws a Failure where it does not come to that.
void run_trial(const Options& options, Api& api, const Json& trial);

}  // namespace holdfast::ops
