// Post-conditions of every placement, checked in every build: an owner too few would be noticed only when a node dies.
//
// Throws std::logic_error unless
//   - each chunk has min(R, N) owners, all members, no one twice, the first of them the primary and the others ascending;
//   - no member owns more than its limit;
//   - copies are those that owners lack, each once, in order, from a member that holds the chunk; none where all comes from a
//     source, and then nobody holds anything.
#pragma once

#include "rendezvous/placement/placement.h"

namespace holdfast::rendezvous {

void require_sound(const PlacementQuestion& question, const Placement& placement);

}  // namespace holdfast::rendezvous
