// The decisions of a step before its first microbatch: the exponents that it is packed under, and who computes what.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "worker/step/shares.h"
#include "worker/step/train_loop.h"

namespace holdfast::worker {

// Whether none of them is unset.
bool all_set(std::span<const int32_t> exponents);
// Of the step that follows the session's state, one per tensor; empty for the float reduction.
std::vector<int32_t> exponents_of(Session& session);

// Chooses the exponents of a step whose state has none yet, such as a job's first: every rank computes the same one
// microbatch, and chooses them from its gradient; ranks that cannot compute yet are told them. Not for local steps, which take
// too long for that: there every tensor of the first step overflows, and is packed again.
RunResult<void> choose_first_exponents(TrainLoop& loop);

// The shares of a generation's first step: microbatches that its members kept count. One small all-gather. The LoadBalancer
// deals every other step.
RunResult<StepShares> agree_on_shares(TrainLoop& loop);

}  // namespace holdfast::worker
