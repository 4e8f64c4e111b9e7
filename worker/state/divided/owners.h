// The owners of chunks as sets of ranks, and the question to rendezvous/placement of who is to own them. Pure.
#pragma once

#include <vector>

#include "rendezvous/placement/placement.h"
#include "worker/session/run_stop.h"
#include "worker/session/session.h"
#include "worker/state/divided/holdings.h"
#include "worker/state/divided/routes.h"

namespace holdfast::worker {

// The owners of a chunk.
RankSet owners_of(const rendezvous::Placement& placement, size_t chunk, size_t world_size);
// By chunk, whether `rank` owns it.
std::vector<bool> owned_by(const rendezvous::Placement& placement, size_t chunks, size_t rank, size_t world_size);

// By piece of the state (TrainState::pieces), whether `rank` writes it in a checkpoint: what belongs to no chunk rank 0 does,
// and a chunk one of its owners, so that all write about as much.
std::vector<bool> written_by(const Session& session, size_t rank, size_t world_size);

// The mean gradient of a step goes to those who own its chunks in session.placement, from now on.
void divide_gradient(Session& session, size_t world_size);

// The placement from now on: a function of what all ranks hold, so the same on each. Ranks that are `leaving` are to own
// nothing; what only they hold is copied. The stop is "state_lost" where nobody holds some chunk.
RunResult<rendezvous::Placement> place_chunks(const Session& session, const Holdings& holdings, const RankSet& leaving);

}  // namespace holdfast::worker
