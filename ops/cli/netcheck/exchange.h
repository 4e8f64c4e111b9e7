// The exchange between two nodes that measures the network between them: round trips, one direction, the other, both at once.
//
// Promises: zeros are moved and nothing else is told; every phase is bounded in time, whatever the other side does. The one who
// answers reads no file, allocates no more than a block, and refuses who does not say the first line, with a sentence.
// Nobody proves who they are: whoever reaches the port can make this node send zeros for so long. So it listens on loopback
// unless told otherwise, and only while somebody runs the command.
//
//   asking                      answering
//   holdfast-netcheck 1         holdfast-netcheck 1        or: refused: WHY, and the end
//   ping N                      each of N bytes comes back, one at a time
//   move out MILLISECONDS       (takes blocks) BYTES_PER_S
//   move in MILLISECONDS        (sends blocks)
//   move both MILLISECONDS      (takes and sends blocks) BYTES_PER_S
// A block is 64 KiB of zeros; the last one of a phase begins with 1. The receiver counts, from a fifth of the time on: before
// that TCP is still finding its rate.
#pragma once

#include <chrono>
#include <cstdint>

#include "ops/cli/netcheck/socket.h"

namespace holdfast::ops {

// Of the one who asks: "there" is what it sends. Bytes and seconds.
struct NetcheckFigures {
  double round_trip_s;           // the median
  double there, back;            // bytes a second, one direction at a time
  double both_there, both_back;  // with the other direction busy, as in a ring
};

// Both directions at once are slower than each alone, as between ports that agreed on half duplex.
bool slower_both_ways(const NetcheckFigures& figures);

constexpr double kNetcheckSecondsMin = 0.1, kNetcheckSecondsMax = 30;
constexpr std::chrono::seconds kNetcheckConnect{10};

// So many round trips as take about a second, when one takes `trip_s`: from 5, which a slow way still does in time, to 200.
int64_t pings_for(double trip_s);
// `seconds` for each of the three measurements.
NetResult<NetcheckFigures> ask_netcheck(const Socket& peer, double seconds);
// One check, to its end. The error says why it was refused or broke off.
NetResult<void> answer_netcheck(const Socket& peer);

}  // namespace holdfast::ops
