// One clock for all ranks, from the all-gathers of a profile.
//
// Each rank measures by its own steady clock. Every rank must have begun an all-gather before any rank can end it: so its end
// on one rank is not before its begin on another. This bounds the offset between two clocks from both sides, once for each
// all-gather; all bounds together leave an interval, whose middle is taken. Its half is the error that is left.
// Promises: pure. Where a clock drifted by more than the interval, so that no offset fits all bounds, the offset is the median
// over the tightest all-gathers, and the error covers all of these.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace holdfast::rendezvous {

struct Gather {
  int64_t begin_ns = 0, end_ns = 0;  // by the rank's clock
};
using Gathers = std::map<int64_t, Gather>;  // by their number, which is the same on all ranks

struct ClockOffset {
  int64_t offset_ns = 0;  // to be added to the rank's times, for those of the first rank's clock
  int64_t error_ns = 0;   // at most so much more or less
};

// By rank; the first one's offset is 0 without an error. Nothing for a rank that has no all-gather in common with the first.
std::vector<std::optional<ClockOffset>> align_clocks(const std::vector<Gathers>& ranks);

}  // namespace holdfast::rendezvous
