#include "rendezvous/profile/alignment.h"

#include <algorithm>

namespace holdfast::rendezvous {
namespace {

// An offset lies between these.
struct Bounds {
  int64_t least, most;
  int64_t middle() const { return least + (most - least) / 2; }
  int64_t half() const { return (most - least + 1) / 2; }
};

// The bounds of each all-gather that both ranks have.
std::vector<Bounds> bounds_of(const Gathers& first, const Gathers& other) {
  std::vector<Bounds> all;
  for (const auto& [number, mine] : first) {
    const auto found = other.find(number);
    if (found == other.end()) continue;
    const Gather& its = found->second;
    // its end + offset >= my begin;  my end >= its begin + offset
    const Bounds bounds{mine.begin_ns - its.end_ns, mine.end_ns - its.begin_ns};
    if (bounds.least <= bounds.most) all.push_back(bounds);
  }
  return all;
}

// For clocks that drifted: the tighter half of the all-gathers, their median, and an error that covers them.
ClockOffset median_of_tightest(std::vector<Bounds> all) {
  std::ranges::sort(all, {}, &Bounds::half);
  all.resize((all.size() + 1) / 2);
  std::ranges::sort(all, {}, &Bounds::middle);
  ClockOffset clock{all[all.size() / 2].middle(), 0};
  for (const Bounds& bounds : all) {
    clock.error_ns = std::max({clock.error_ns, bounds.most - clock.offset_ns, clock.offset_ns - bounds.least});
  }
  return clock;
}

std::optional<ClockOffset> align(const Gathers& first, const Gathers& other) {
  const std::vector<Bounds> all = bounds_of(first, other);
  if (all.empty()) return std::nullopt;
  Bounds common = all.front();
  for (const Bounds& bounds : all) common = {std::max(common.least, bounds.least), std::min(common.most, bounds.most)};
  if (common.least > common.most) return median_of_tightest(all);
  return ClockOffset{common.middle(), common.half()};
}

}  // namespace

std::vector<std::optional<ClockOffset>> align_clocks(const std::vector<Gathers>& ranks) {
  std::vector<std::optional<ClockOffset>> clocks;
  for (const Gathers& rank : ranks) {
    clocks.push_back(clocks.empty() ? ClockOffset{} : align(ranks.front(), rank));
  }
  return clocks;
}

}  // namespace holdfast::rendezvous
