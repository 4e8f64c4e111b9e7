// The owners of chunks as sets of ranks, and the question to rendezvous/placement of who is to own them. Pure.
#pragma once

#include <optional>
#include <vector>

#include "rendezvous/placement/placement.h"
#include "rendezvous/protocol/messages.h"
#include "worker/session/ownership.h"
#include "worker/session/run_stop.h"
#include "worker/session/session.h"
#include "worker/state/divided/holdings.h"
#include "worker/state/divided/routes.h"

namespace holdfast::worker {

// The owners of a chunk that have it.
RankSet holders_of(const Ownership& ownership, size_t chunk, size_t world_size);
// By chunk, whether `rank` owns it; whether it does and lacks it.
std::vector<bool> owned_by(const Ownership& ownership, size_t rank);
std::vector<bool> lacked_by(const Ownership& ownership, size_t rank);
// By chunk, whether its compute copy is still to come to `rank`. By rank, whether all have come, so that it computes.
std::vector<bool> copies_to_come(const Ownership& ownership, size_t rank);
RankSet computing_ranks(const Ownership& ownership, size_t world_size);

// The placement's owners have all that they own.
Ownership settled(const rendezvous::Placement& placement, size_t chunks);
// The same where ranks have what `holdings` says, so that some of it is still to come. Somebody has each chunk.
Ownership on_the_way(const rendezvous::Placement& placement, const Holdings& holdings, size_t chunks);
// Compute copies of the `holdings.newcomers` are to come later, but for those of chunks that they hold from now on. Not so
// where nobody else stays, for then no rank could compute.
void leave_copies_for_later(Ownership& ownership, const Session& session, const Holdings& holdings, const RankSet& leaving);

// The division as people are shown it; nullopt where the state is not divided.
std::optional<rendezvous::StateDivision> division_of(const Session& session, size_t world_size);

// By piece of the state (TrainState::pieces), whether `rank` writes it in a checkpoint: what belongs to no chunk rank 0 does,
// and a chunk one of those who have it, so that all write about as much.
std::vector<bool> written_by(const Session& session, size_t rank, size_t world_size);

// The mean gradient of a step goes to those who own its chunks in session.ownership, from now on.
void divide_gradient(Session& session, size_t world_size);

// From now on this rank owns what is said, and nothing else; all of it is sound but what it lacks.
void own_what_is_said(Session& session, const Ownership& ownership, size_t rank, size_t world_size);

// The stop where nobody has these chunks any more.
RunStop lost_chunks(const Session& session, const std::vector<size_t>& lost);

// The placement from now on: a function of what all ranks hold, so the same on each. Ranks that are `leaving` are to own
// nothing; what only they hold is copied. The stop is lost_chunks() where nobody holds some chunk, unless nobody holds any.
RunResult<rendezvous::Placement> place_chunks(const Session& session, const Holdings& holdings, const RankSet& leaving);

}  // namespace holdfast::worker
