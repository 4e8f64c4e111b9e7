// The fewest copies with which chunks of one size could be dealt: a minimum-cost flow, as a judge of what place() moves.
#pragma once

#include <cstdint>
#include <optional>

#include "rendezvous/placement/placement.h"

namespace holdfast::rendezvous {

// Each chunk to min(R, N) members on as many nodes, each member with its share to within a chunk. For members without limits on
// enough nodes, and chunks of one size; nullopt where such a deal is impossible.
std::optional<int64_t> fewest_copies(const PlacementQuestion& question);

}  // namespace holdfast::rendezvous
