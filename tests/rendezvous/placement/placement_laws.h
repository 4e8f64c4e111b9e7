// The promises of placement.h, checked without the code that keeps them: no shares are computed here, a difference between two
// members needs an excuse instead.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rendezvous/placement/placement.h"

namespace holdfast::rendezvous {

// Bytes by rank, and sums, of a placement.
struct PlacementFacts {
  PlacementFacts(const PlacementQuestion& question, const Placement& placement);

  int64_t total = 0, largest = 0;             // bytes: of all chunks, of one
  std::vector<int64_t> owned, primary, room;  // by rank
  std::vector<int64_t> received, sent;        // by rank
  int64_t copied = 0;                         // bytes
  int64_t missing = 0;                        // bytes of copies that no deal can do without: holders below k
};

bool holds(const PlacementMember& member, size_t chunk);

// The first promise that the placement breaks, in words; "" where it keeps all of them.
std::string broken_promise(const PlacementQuestion& question, const Placement& placement);

}  // namespace holdfast::rendezvous
