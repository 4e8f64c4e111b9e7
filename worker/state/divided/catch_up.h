// Ranks of a divided state that are one step behind apply the step to what they own.
//
// A step is applied once every rank has told the sums of squares of its chunks (norm.h), which it does when the sums of all
// that it owns are there. So where one rank has applied a step, every other that was there has all that it needs but the norm.
#pragma once

#include <vector>

#include "worker/session/session.h"
#include "worker/state/divided/routes.h"
#include "worker/state/offers.h"

namespace holdfast::worker {

// The ranks that hold `step` once those have caught up that can: no bytes move. `offers` by rank; at least one is of the step.
// Every rank comes to the same answer.
RankSet catch_up_to(Session& session, int rank, const std::vector<Offer>& offers, int64_t step);

}  // namespace holdfast::worker
