#include "rendezvous/profile/costs.h"

#include <algorithm>
#include <cctype>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

namespace holdfast::rendezvous {
namespace {

constexpr double kNanosecond = 1e-9;

// A stretch of time by one rank's clock, in which it made some steps.
struct Window {
  int64_t begin_ns = 0, end_ns = 0, steps = 0;
  int64_t within(int64_t begin, int64_t end) const {
    return std::max<int64_t>(0, std::min(end, end_ns) - std::max(begin, begin_ns));
  }
};

int64_t end_of(const ProfileSpan& span) {
  return span.begin_ns + span.duration_ns;
}

bool is_outline(const ProfileSpan& span) {
  return span.kind == SpanKind::kStep || span.kind == SpanKind::kPhase;
}

template <typename Each>
void for_each_span(const ProfiledRank& rank, const Each& each) {
  for (const ProfileTrack& track : rank.tracks) {
    for (const ProfileSpan& span : track.spans) each(track, span);
  }
}

// The end of the last span that was kept before others were dropped.
int64_t complete_until(const ProfiledRank& rank) {
  if (rank.dropped == 0) return std::numeric_limits<int64_t>::max();
  int64_t until = std::numeric_limits<int64_t>::min();
  for_each_span(rank, [&](const ProfileTrack&, const ProfileSpan& span) {
    if (!is_outline(span)) until = std::max(until, end_of(span));
  });
  return until;
}

Window window_of(const ProfiledRank& rank, const std::set<int64_t>& steps, int64_t until) {
  Window window{std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min(), 0};
  for_each_span(rank, [&](const ProfileTrack&, const ProfileSpan& span) {
    if (span.kind != SpanKind::kStep || !steps.contains(span.number) || end_of(span) > until) return;
    window.begin_ns = std::min(window.begin_ns, span.begin_ns);
    window.end_ns = std::max(window.end_ns, end_of(span));
    ++window.steps;
  });
  return window;
}

// "checkpoint writer" of "checkpoint writer 2".
std::string role_of(const std::string& thread) {
  const size_t space = thread.rfind(' ');
  const bool numbered = space != std::string::npos && space + 1 < thread.size() &&
                        std::all_of(thread.begin() + static_cast<std::ptrdiff_t>(space) + 1, thread.end(),
                                    [](unsigned char c) { return std::isdigit(c) != 0; });
  return numbered ? thread.substr(0, space) : thread;
}

std::string cost_name(const ProfiledRank& rank, const ProfileSpan& span) {
  if (span.kind == SpanKind::kStep) return "between the phases";
  const std::string& name = rank.names[static_cast<size_t>(span.name)];
  return span.kind == SpanKind::kPhase ? name + " (itself)" : name;
}

// Adds up the time of each span without that of the spans within it.
class OwnTimes {
 public:
  using Key = std::tuple<std::string, std::string, SpanKind>;  // name, thread, kind

  void add(const ProfiledRank& rank, const Window& window) {
    for (const ProfileTrack& track : rank.tracks) {
      std::vector<const ProfileSpan*> open;  // the outer spans of the one that is looked at
      const std::string role = role_of(track.thread);
      const auto take = [&](const ProfileSpan& span, int64_t ns) {
        seconds_[{cost_name(rank, span), role, span.kind}][rank.rank] +=
            static_cast<double>(ns) * kNanosecond / static_cast<double>(window.steps);
      };
      for (const ProfileSpan& span : track.spans) {
        while (!open.empty() && end_of(*open.back()) <= span.begin_ns) open.pop_back();
        const int64_t ns = window.within(span.begin_ns, end_of(span));
        if (ns > 0) take(span, ns);
        if (ns > 0 && !open.empty()) take(*open.back(), -ns);
        open.push_back(&span);
      }
    }
  }

  std::vector<ProfileCost> costs(double step_s) const {
    std::vector<ProfileCost> costs;
    for (const auto& [key, by_rank] : seconds_) {
      ProfileCost cost;
      std::tie(cost.name, cost.thread, cost.kind) = key;
      for (const auto& [rank, seconds] : by_rank) {
        cost.ranks.push_back({rank, std::max(0.0, seconds)});
        cost.seconds += cost.ranks.back().seconds / static_cast<double>(by_rank.size());
      }
      cost.share = step_s > 0 ? cost.seconds / step_s : 0;
      costs.push_back(std::move(cost));
    }
    std::ranges::stable_sort(costs, std::greater<>(), &ProfileCost::seconds);
    return costs;
  }

 private:
  std::map<Key, std::map<int64_t, double>> seconds_;  // by rank
};

// Phases as whole spans, in the order in which they come.
void add_phases(MergedProfile& merged, const ProfiledRank& rank, const Window& window, double ranks) {
  for_each_span(rank, [&](const ProfileTrack&, const ProfileSpan& span) {
    if (span.kind != SpanKind::kPhase) return;
    const int64_t ns = window.within(span.begin_ns, end_of(span));
    const std::string& name = rank.names[static_cast<size_t>(span.name)];
    auto found = std::ranges::find(merged.phases, name, &ProfilePhase::name);
    if (found == merged.phases.end()) found = merged.phases.insert(found, {name, 0, 0});
    found->seconds += static_cast<double>(ns) * kNanosecond / static_cast<double>(window.steps) / ranks;
  });
}

}  // namespace

void add_costs(MergedProfile& merged, const std::set<int64_t>& steps) {
  constexpr int64_t kAlways = std::numeric_limits<int64_t>::max();
  std::vector<const ProfiledRank*> present;
  for (const ProfiledRank& rank : merged.ranks) {
    if (rank.missing.empty()) present.push_back(&rank);
  }
  const auto ranks = static_cast<double>(present.size());
  OwnTimes own;
  for (const ProfiledRank* rank : present) {
    const Window whole = window_of(*rank, steps, kAlways);
    merged.step_s +=
        static_cast<double>(whole.end_ns - whole.begin_ns) * kNanosecond / static_cast<double>(whole.steps) / ranks;
    add_phases(merged, *rank, whole, ranks);
    const Window complete = window_of(*rank, steps, complete_until(*rank));
    own.add(*rank, complete.steps > 0 ? complete : whole);
  }
  for (ProfilePhase& phase : merged.phases) phase.share = merged.step_s > 0 ? phase.seconds / merged.step_s : 0;
  merged.costs = own.costs(merged.step_s);
}

}  // namespace holdfast::rendezvous
