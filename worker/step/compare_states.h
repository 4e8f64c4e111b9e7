// The ranks' states beside each other.
#pragma once

#include <string>

#include "worker/step/exchange.h"
#include "worker/step/train_loop.h"

namespace holdfast::worker {

// The stop of rank `rank` for what was found: if more than half of the ranks agree, their state is right and the others' is
// wrong; else no state is trusted.
RunStop differing_states(const Disagreement& found, int rank);

// Every rank hashes its state, or each piece that it has of one that is divided, and all compare the hashes; returns that of
// the whole. This comes before a state is written down: if they differ, the state of more than half of the ranks is right, and
// the other ranks drop theirs. One small all-gather.
RunResult<std::string> compare_states(TrainLoop& loop);

}  // namespace holdfast::worker
