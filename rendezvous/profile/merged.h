// A profile of all ranks, on one clock: from the parts that they brought.
//
// Promises: pure; the same parts give the same profile. The steps that count are those that every rank with a part has in
// whole. A rank without a part is left out, and the profile says why. Times of a cost are a span's own: without the spans
// within it, so that the costs of one thread add up to its time. Refuses: parts that have no whole step in common; `failure`
// says so.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rendezvous/profile/alignment.h"
#include "rendezvous/protocol/profile.h"

namespace holdfast::rendezvous {

// A rank's part: its pieces in any order, with names and threads of their own.
struct RankParts {
  std::string worker;
  std::vector<ProfilePart> pieces;
  std::string missing;  // why it brought none; "": it did
};

struct ProfiledRank {
  int64_t rank = 0;
  std::string worker;
  std::string missing, ended;  // why there is no part; why it ended before its last step
  int64_t dropped = 0, spans = 0;
  bool aligned = false;  // the clock is known
  ClockOffset clock;
  std::vector<std::string> names;
  std::vector<ProfileTrack> tracks;  // the train thread first; each thread's spans by begin, an outer one before those within
};

struct RankSeconds {
  int64_t rank = 0;
  double seconds = 0;
};
struct ProfileCost {
  std::string name, thread;  // thread: its role
  SpanKind kind = SpanKind::kOther;
  double seconds = 0, share = 0;   // a step, the mean over the ranks; its part of the step
  std::vector<RankSeconds> ranks;  // the ranks that have it
};
struct ProfilePhase {
  std::string name;
  double seconds = 0, share = 0;
};

struct MergedProfile {
  std::string failure;                    // why there is nothing to see; "": there is
  int64_t first_step = 0, last_step = 0;  // of the steps that every rank has in whole
  int64_t steps = 0;                      // how many of these
  double step_s = 0;                      // their mean over steps and ranks
  std::vector<ProfilePhase> phases;       // of the train thread, in their order
  std::vector<ProfileCost> costs;         // all, the largest first
  std::vector<ProfiledRank> ranks;
};

// `ranks` by rank.
MergedProfile merge(std::vector<RankParts> ranks);

}  // namespace holdfast::rendezvous
