// Chains of moves between three bins, by hand.
#include "rendezvous/placement/evening.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace holdfast::rendezvous {
namespace {

using testing::ElementsAre;

// Units that may be moved where `costs` says so.
struct Units {
  static constexpr size_t kCosts = 2;
  std::vector<int32_t> in;                              // by unit: the bin
  std::map<std::pair<size_t, size_t>, int> costs = {};  // (unit, to)

  int cost(size_t unit, size_t, size_t to) const {
    const auto found = costs.find({unit, to});
    return found == costs.end() || has(unit, to) ? kForbidden : found->second;
  }
  static int64_t weight(size_t cost) { return cost == 0 ? 1 : 100; }
  bool has(size_t unit, size_t bin) const { return in[unit] == static_cast<int32_t>(bin); }
  void move(size_t unit, size_t, size_t to) { in[unit] = static_cast<int32_t>(to); }
  std::span<const int32_t> bins_of(size_t unit) const { return std::span(in).subspan(unit, 1); }
};

struct Outcome {
  bool moved;
  std::vector<int32_t> in;
  std::vector<int64_t> excess;
};
Outcome even_out(Units units, const std::vector<int64_t>& bytes, std::vector<int64_t> excess) {
  const bool moved = Evening(units, bytes, excess).even_out(20);
  return {moved, units.in, excess};
}

TEST(Evening, LeavesBinsAloneThatDifferByTheTolerance) {
  const Outcome outcome = even_out({{0}, {{{0, 2}, 0}}}, {10}, {20, 10, 0});
  EXPECT_FALSE(outcome.moved);
  EXPECT_THAT(outcome.excess, ElementsAre(20, 10, 0));
  EXPECT_FALSE(even_out({{0}, {{{0, 1}, 0}}}, {10}, {30, 10, 0}).moved);
}

TEST(Evening, TakesTheCheapestChainThoughItIsLonger) {
  const Units units{{0, 0, 1}, {{{0, 2}, 1}, {{1, 1}, 0}, {{2, 2}, 0}}};
  const Outcome outcome = even_out(units, {10, 10, 10}, {30, 15, 0});
  EXPECT_TRUE(outcome.moved);
  EXPECT_THAT(outcome.in, ElementsAre(0, 1, 2));
  EXPECT_THAT(outcome.excess, ElementsAre(20, 15, 10));
}

TEST(Evening, TakesTheLightestOfBinsThatAreEquallyCheap) {
  const Outcome outcome = even_out({{0}, {{{0, 1}, 0}, {{0, 2}, 0}}}, {10}, {30, 5, 0});
  EXPECT_THAT(outcome.in, ElementsAre(2));
}

TEST(Evening, TakesTheLargestUnit) {
  const Outcome outcome = even_out({{0, 0, 0}, {{{0, 2}, 0}, {{1, 2}, 0}, {{2, 2}, 0}}}, {3, 10, 4}, {30, 15, 0});
  EXPECT_THAT(outcome.in, ElementsAre(0, 2, 0));
}

TEST(Evening, TakesAChainOfUnlikeUnitsOnlyWhereItEvensOut) {
  // Bin 1 becomes heavier by 9 on the way: that is too much where it is heavy itself.
  const Units units{{0, 1}, {{{0, 1}, 0}, {{1, 2}, 0}}};
  EXPECT_TRUE(even_out(units, {10, 1}, {30, 10, 6}).moved);
  EXPECT_FALSE(even_out(units, {10, 1}, {30, 25, 6}).moved);
}

TEST(Evening, IsDoneWhereNothingMayBeMoved) {
  EXPECT_FALSE(even_out({{0}, {}}, {10}, {100, 0, 0}).moved);
}

}  // namespace
}  // namespace holdfast::rendezvous
