// The owners of chunks as sets of ranks, from a placement and what ranks hold, and the question to rendezvous/placement. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "rendezvous/placement/placement.h"
#include "worker/session/ownership.h"
#include "worker/state/divided/judge_holdings.h"

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
void leave_copies_for_later(Ownership& ownership, const Holdings& holdings, const RankSet& leaving);

// The question of who is to own chunks of so many bytes, each of them `replicas` ranks where as many stay. Ranks that are
// `leaving` hold what they hold, and are to own nothing.
rendezvous::PlacementQuestion question_of(std::vector<int64_t> chunk_bytes, int64_t replicas, const Holdings& holdings,
                                          const RankSet& leaving);

}  // namespace holdfast::worker
