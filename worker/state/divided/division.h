// A session's state, divided as the ranks have agreed (owners.h): what this rank owns, writes and has the gradient of.
#pragma once

#include <optional>
#include <vector>

#include "rendezvous/placement/placement.h"
#include "rendezvous/protocol/messages.h"
#include "worker/session/run_stop.h"
#include "worker/session/session.h"
#include "worker/state/divided/owners.h"

namespace holdfast::worker {

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
