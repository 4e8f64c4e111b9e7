// The reports to the service when a ring fell: the fault that this rank met, then each other member whose process has ended.
// Where a node goes several do, of which a ring names one, and the service must not wait for the others.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "rendezvous/protocol/messages.h"

namespace holdfast::worker {

// `met` without its suspect_gone. `gone`: ranks whose addresses refuse connections, of `members`.
inline std::vector<rendezvous::FaultReport> fault_reports(rendezvous::FaultReport met, std::span<const int> gone,
                                                          std::span<const rendezvous::Member> members) {
  met.suspect_gone = std::ranges::find(gone, met.suspect_rank) != gone.end();
  std::vector<rendezvous::FaultReport> reports{met};
  for (const int rank : gone) {
    if (rank == met.suspect_rank) continue;
    rendezvous::FaultReport& other = reports.emplace_back();
    other.generation = met.generation;
    other.suspect_rank = rank;
    other.kind = "gone";
    other.detail = members[static_cast<size_t>(rank)].address + " refuses connections";
    other.suspect_gone = true;
  }
  return reports;
}

}  // namespace holdfast::worker
