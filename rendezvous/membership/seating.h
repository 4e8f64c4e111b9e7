// Seating: the order of the workers on the ring of a generation, which is the order of their ranks.
//
// Connections of a ring are between neighbours alone, so two workers that do not reach each other (rifts.h) get other
// neighbours. A ring of three or fewer has no room for that: there one of the two waits; so does a worker that several others
// do not reach.
// Pure. Private to the membership.
#pragma once

#include <string>
#include <vector>

#include "rendezvous/membership/state.h"

namespace holdfast::rendezvous {

struct Turn;

struct Seating {
  std::vector<std::string> ring;     // in rank order
  std::vector<std::string> waiting;  // left out of the ring
};
// Seats `names` so that those that do not reach each other are no neighbours, as near to the given order as can be. Where too
// few would be left, or nobody can be spared, the ring is all of them in the given order: then only another try may help.
Seating seat_ring(const JobMembership& job, const std::vector<std::string>& names, Millis now);
// Tells people for whom each worker that was left out waits, and until when.
void note_waiting(Turn& turn, const Seating& seating);

}  // namespace holdfast::rendezvous
