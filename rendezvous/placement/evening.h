// Evening out: units (chunks, copies) lie in bins (members) and are moved until the bins' excesses are alike. Private to the
// placement.
//
// As in a flow of minimum cost, units are moved along chains: bin a gives one to b, b one to c, and so on, so that a becomes
// lighter, the last one heavier, and those between change by the difference of two units. The cheapest chain is taken (Dijkstra
// over the bins), to the lightest of the bins that are equally cheap to reach.
//
// Promises: when `even_out` returns, no chain leads from a bin to one whose excess is over `tolerance` less, but for chains of
// units of unlike sizes that would make the excesses less even. It ends: the sum of the excesses' squares falls with each
// chain.
//
// Rule has:
//   static constexpr size_t kCosts             costs are 0 to kCosts - 1
//   int cost(size_t unit, size_t from, size_t to) const   of moving it; kForbidden. It depends on this unit's bins alone
//   int64_t weight(size_t cost) const          of a cost in a chain's sum, above 0
//   bool has(size_t unit, size_t bin) const
//   void move(size_t unit, size_t from, size_t to)
//   std::span<const int32_t> bins_of(size_t unit) const
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace holdfast::rendezvous {

inline constexpr int kForbidden = -1;

// Units by falling size, of one size by number.
inline std::vector<size_t> largest_first(std::span<const int64_t> bytes) {
  std::vector<size_t> order(bytes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return bytes[a] > bytes[b]; });
  return order;
}

template <typename Rule>
class Evening {
 public:
  // `bytes`: of each unit; `excess`: of each bin, kept up to date. All three must outlive it.
  Evening(Rule& rule, std::span<const int64_t> bytes, std::vector<int64_t>& excess)
      : rule_(rule), bytes_(bytes), excess_(excess), bins_(excess.size()) {}

  // Whether anything was moved.
  bool even_out(int64_t tolerance) {
    if (!is_uneven(tolerance)) return false;
    for (const size_t unit : largest_first(bytes_)) units_.push_back(unit);
    std::ranges::reverse(units_);  // the ends of the lists are taken first: they are to be the largest
    movable_.resize(bins_ * bins_);
    for (const size_t unit : units_) list(unit);
    bool moved = false;
    while (move_once(tolerance)) moved = true;
    return moved;
  }

 private:
  static constexpr int64_t kFar = std::numeric_limits<int64_t>::max();
  struct Step {
    size_t unit, from, to;
  };
  struct Reached {  // a bin, from the start of the chains
    int64_t weight = kFar;
    size_t from = 0, unit = 0;
    bool done = false;
  };

  bool is_uneven(int64_t tolerance) const {
    const auto [low, high] = std::ranges::minmax(excess_);
    return high - low > tolerance;
  }

  // Every bin that the unit lies in may give it to others.
  void list(size_t unit) {
    for (const int32_t bin : rule_.bins_of(unit)) {
      const auto from = static_cast<size_t>(bin);
      for (size_t to = 0; to < bins_; ++to) {
        const int cost = rule_.cost(unit, from, to);
        if (cost != kForbidden) movable_[from * bins_ + to][static_cast<size_t>(cost)].push_back(static_cast<uint32_t>(unit));
      }
    }
  }

  // The cheapest unit that `from` may give to `to`, and its cost. Listed units that have moved since are dropped.
  std::optional<std::pair<size_t, size_t>> cheapest(size_t from, size_t to) {
    auto& lists = movable_[from * bins_ + to];
    for (size_t cost = 0; cost < Rule::kCosts; ++cost) {
      for (auto& units = lists[cost]; !units.empty(); units.pop_back()) {
        const size_t unit = units.back();
        if (rule_.has(unit, from) && rule_.cost(unit, from, to) == static_cast<int>(cost)) return std::pair(unit, cost);
      }
    }
    return std::nullopt;
  }

  // From the heaviest bin that can be made lighter. Whether there was one.
  bool move_once(int64_t tolerance) {
    std::vector<size_t> heaviest(bins_);
    std::iota(heaviest.begin(), heaviest.end(), size_t{0});
    std::ranges::stable_sort(heaviest, [&](size_t a, size_t b) { return excess_[a] > excess_[b]; });
    const int64_t lowest = excess_[heaviest.back()];
    for (const size_t start : heaviest) {
      if (excess_[start] - lowest <= tolerance) return false;
      if (lighten(start, excess_[start] - tolerance)) return true;
    }
    return false;
  }

  // One unit less in `start`, one more in a bin whose excess is below `below`.
  bool lighten(size_t start, int64_t below) {
    std::vector<Reached> reached(bins_);
    reached[start].weight = 0;
    while (const std::optional<size_t> bin = nearest(reached)) {
      reached[*bin].done = true;
      if (excess_[*bin] < below && move_along(chain_to(*bin, start, reached))) return true;
      for (size_t to = 0; to < bins_; ++to) {
        if (reached[to].done) continue;
        const auto unit = cheapest(*bin, to);
        if (!unit) continue;
        const int64_t weight = reached[*bin].weight + rule_.weight(unit->second);
        if (weight < reached[to].weight) reached[to] = {weight, *bin, unit->first};
      }
    }
    return false;
  }

  std::optional<size_t> nearest(const std::vector<Reached>& reached) const {
    std::optional<size_t> best;
    for (size_t bin = 0; bin < bins_; ++bin) {
      if (reached[bin].done || reached[bin].weight == kFar) continue;
      if (!best || std::pair(reached[bin].weight, excess_[bin]) < std::pair(reached[*best].weight, excess_[*best])) best = bin;
    }
    return best;
  }

  static std::vector<Step> chain_to(size_t end, size_t start, const std::vector<Reached>& reached) {
    std::vector<Step> chain;
    for (size_t bin = end; bin != start; bin = reached[bin].from) chain.push_back({reached[bin].unit, reached[bin].from, bin});
    return chain;
  }

  // Whether the sum of the excesses' squares falls, by more than rounding could feign. One bin's grows by (x + d)^2 - x^2 =
  // d (2 x + d); all d together are 0, so x may be counted from the chain's start.
  bool evens_out(const std::vector<Step>& chain) const {
    double sum = 0, size = 0;
    const auto add = [&](size_t bin, int64_t change) {
      const auto d = static_cast<double>(change), x = static_cast<double>(excess_[bin] - excess_[chain.back().from]);
      sum += d * (2 * x + d);
      size += std::abs(d * (2 * x + d));
    };
    add(chain.back().from, -bytes_[chain.back().unit]);
    for (size_t i = 0; i < chain.size(); ++i) {  // from its end
      for (size_t j = 0; j < i; ++j) {
        if (chain[i].unit == chain[j].unit) return false;  // its two moves were each looked up without the other
      }
      add(chain[i].to, bytes_[chain[i].unit] - (i > 0 ? bytes_[chain[i - 1].unit] : 0));
    }
    return sum < -1e-9 * size;
  }

  bool move_along(const std::vector<Step>& chain) {
    if (!evens_out(chain)) return false;
    for (const Step& step : chain) {
      rule_.move(step.unit, step.from, step.to);
      excess_[step.from] -= bytes_[step.unit];
      excess_[step.to] += bytes_[step.unit];
    }
    for (const Step& step : chain) list(step.unit);
    return true;
  }

  Rule& rule_;
  std::span<const int64_t> bytes_;
  std::vector<int64_t>& excess_;
  size_t bins_;
  std::vector<size_t> units_;                                             // the smallest first
  std::vector<std::array<std::vector<uint32_t>, Rule::kCosts>> movable_;  // (bins, bins, costs): units, some no longer there
};

}  // namespace holdfast::rendezvous
