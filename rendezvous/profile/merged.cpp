#include "rendezvous/profile/merged.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "rendezvous/profile/costs.h"
#include "rendezvous/text/list_in_words.h"

namespace holdfast::rendezvous {
namespace {

constexpr const char* kTrainThread = "train";

// The places of a piece's names among those of the rank.
std::vector<int32_t> add_names(ProfiledRank& rank, const std::vector<std::string>& names) {
  std::vector<int32_t> places;
  for (const std::string& name : names) {
    const auto found = std::ranges::find(rank.names, name);
    places.push_back(static_cast<int32_t>(found - rank.names.begin()));
    if (found == rank.names.end()) rank.names.push_back(name);
  }
  return places;
}

ProfileTrack& track_of(ProfiledRank& rank, const std::string& thread) {
  const auto found = std::ranges::find(rank.tracks, thread, &ProfileTrack::thread);
  if (found != rank.tracks.end()) return *found;
  rank.tracks.push_back({thread, {}});
  return rank.tracks.back();
}

// An outer span before those within it. Of two that begin and end together a step or phase is the outer one.
bool comes_before(const ProfileSpan& a, const ProfileSpan& b) {
  if (a.begin_ns != b.begin_ns) return a.begin_ns < b.begin_ns;
  if (a.duration_ns != b.duration_ns) return a.duration_ns > b.duration_ns;
  return a.kind < b.kind;
}

ProfiledRank one_rank(int64_t number, RankParts parts) {
  ProfiledRank rank;
  rank.rank = number;
  rank.worker = std::move(parts.worker);
  rank.missing = std::move(parts.missing);
  std::ranges::sort(parts.pieces, {}, &ProfilePart::piece);
  for (ProfilePart& piece : parts.pieces) {
    rank.dropped = piece.dropped;
    rank.ended = piece.ended;
    const std::vector<int32_t> places = add_names(rank, piece.names);
    for (const ProfileTrack& track : piece.tracks) {
      ProfileTrack& to = track_of(rank, track.thread);
      for (ProfileSpan span : track.spans) {
        span.name = places[static_cast<size_t>(span.name)];
        to.spans.push_back(span);
      }
      rank.spans += static_cast<int64_t>(track.spans.size());
    }
  }
  for (ProfileTrack& track : rank.tracks) std::ranges::sort(track.spans, comes_before);
  std::ranges::stable_partition(rank.tracks, [](const ProfileTrack& track) { return track.thread == kTrainThread; });
  return rank;
}

Gathers gathers_of(const ProfiledRank& rank) {
  Gathers gathers;
  for (const ProfileTrack& track : rank.tracks) {
    for (const ProfileSpan& span : track.spans) {
      if (span.kind == SpanKind::kGather) gathers[span.number] = {span.begin_ns, span.begin_ns + span.duration_ns};
    }
  }
  return gathers;
}

void align_ranks(std::vector<ProfiledRank>& ranks) {
  std::vector<ProfiledRank*> present;
  std::vector<Gathers> gathers;
  for (ProfiledRank& rank : ranks) {
    if (rank.spans == 0) continue;
    present.push_back(&rank);
    gathers.push_back(gathers_of(rank));
  }
  const auto clocks = align_clocks(gathers);
  for (size_t i = 0; i < present.size(); ++i) {
    present[i]->aligned = clocks[i].has_value();
    present[i]->clock = clocks[i].value_or(ClockOffset{});
  }
}

std::set<int64_t> whole_steps(const ProfiledRank& rank) {
  std::set<int64_t> steps;
  for (const ProfileTrack& track : rank.tracks) {
    for (const ProfileSpan& span : track.spans) {
      if (span.kind == SpanKind::kStep) steps.insert(span.number);
    }
  }
  return steps;
}

// The steps that all ranks with a part have in whole.
std::set<int64_t> common_steps(const std::vector<ProfiledRank>& ranks) {
  std::optional<std::set<int64_t>> common;
  for (const ProfiledRank& rank : ranks) {
    if (!rank.missing.empty()) continue;
    const std::set<int64_t> mine = whole_steps(rank);
    if (!common) {
      common = mine;
    } else {
      std::erase_if(*common, [&](int64_t step) { return !mine.contains(step); });
    }
  }
  return common.value_or(std::set<int64_t>{});
}

std::string why_nothing(const std::vector<ProfiledRank>& ranks) {
  std::vector<std::string> reasons;
  for (const ProfiledRank& rank : ranks) {
    const std::string& why = rank.missing.empty() ? rank.ended : rank.missing;
    if (!why.empty()) reasons.push_back(fmt::format("rank {} ({}): {}", rank.rank, rank.worker, why));
  }
  return fmt::format("the ranks have no whole step in common{}{}", reasons.empty() ? "" : "; ", in_words(reasons));
}

}  // namespace

MergedProfile merge(std::vector<RankParts> parts) {
  MergedProfile merged;
  for (RankParts& rank : parts) merged.ranks.push_back(one_rank(static_cast<int64_t>(merged.ranks.size()), std::move(rank)));
  align_ranks(merged.ranks);
  const std::set<int64_t> steps = common_steps(merged.ranks);
  if (steps.empty()) {
    merged.failure = why_nothing(merged.ranks);
    return merged;
  }
  merged.first_step = *steps.begin();
  merged.last_step = *steps.rbegin();
  merged.steps = static_cast<int64_t>(steps.size());
  add_costs(merged, steps);
  return merged;
}

}  // namespace holdfast::rendezvous
