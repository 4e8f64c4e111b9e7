// Dealing microbatches when some ranks are slower than others.
#include "worker/step/load_balancer.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

namespace holdfast::worker {
namespace {

using Numbers = std::vector<int64_t>;

Numbers counts(const LoadBalancer& balancer) {
  Numbers counts;
  for (const auto& own : balancer.shares().own) counts.push_back(static_cast<int64_t>(own.size()));
  return counts;
}

// Steps in which a microbatch takes each rank so many microseconds; the last change.
LoadBalancer::Change run(LoadBalancer& balancer, const Numbers& us,
                         size_t steps = LoadBalancer::kWindow + LoadBalancer::kWarmUpSteps) {
  LoadBalancer::Change last;
  for (size_t i = 0; i < steps; ++i) {
    Numbers took;
    for (size_t rank = 0; rank < us.size(); ++rank)
      took.push_back(us[rank] * static_cast<int64_t>(balancer.shares().to_compute[rank].size()));
    const StepShares computed = balancer.shares();
    if (auto change = balancer.observe(computed, took); change.changed) last = change;
  }
  return last;
}

TEST(LoadBalancer, DealsEvenlyAmongEquals) {
  LoadBalancer balancer(12, 4);
  EXPECT_FALSE(run(balancer, {1000, 1050, 980, 1010}, 100).changed);
  EXPECT_EQ(counts(balancer), (Numbers{3, 3, 3, 3}));
}

TEST(LoadBalancer, ARankAtHalfSpeedGetsFewerMicrobatches) {
  LoadBalancer balancer(12, 4);
  const auto change = run(balancer, {1000, 1000, 2000, 1000});
  ASSERT_TRUE(change.changed);
  EXPECT_EQ(counts(balancer), (Numbers{4, 3, 2, 3}));
  ASSERT_EQ(change.slow.size(), 1U);
  EXPECT_EQ(change.slow[0].rank, 2);
  EXPECT_EQ(in_words(change, {}, true),
            "rank 2 takes 2 ms for a microbatch, the others about 1 ms (median of 8 steps): it computes 2 of a step's "
            "microbatches, where 3 would be its even share; the others do the rest, and the bits do not change");
}

TEST(LoadBalancer, WaitsForAWholeWindowAndIsNotMovedByOneSlowStep) {
  LoadBalancer balancer(12, 3);
  EXPECT_FALSE(run(balancer, {1000, 4000, 1000}, LoadBalancer::kWindow + LoadBalancer::kWarmUpSteps - 1).changed);
  LoadBalancer other(12, 3);
  for (int i = 0; i < 200; ++i) {
    const bool hiccup = i % 8 == 3;
    EXPECT_FALSE(run(other, {1000, hiccup ? 50000 : 1000, 1000}, 1).changed) << "step " << i;
  }
}

TEST(LoadBalancer, GoesBackToEvenSharesWhenTheSlowRankRecovers) {
  LoadBalancer balancer(12, 4);
  run(balancer, {1000, 3000, 1000, 1000});
  EXPECT_LT(counts(balancer)[1], 3);
  const auto change = run(balancer, {1000, 1000, 1000, 1000});
  EXPECT_TRUE(change.changed);
  EXPECT_TRUE(change.slow.empty());
  EXPECT_EQ(counts(balancer), (Numbers{3, 3, 3, 3}));
}

TEST(LoadBalancer, KeepsOneMicrobatchForTheSlowest) {
  LoadBalancer balancer(12, 3);
  run(balancer, {1000, 1000000, 1000});
  EXPECT_EQ(counts(balancer)[1], 1);
}

TEST(LoadBalancer, LeavesWellAloneWhereThereIsNothingToDeal) {
  for (const int world_size : {1, 4}) {
    LoadBalancer balancer(3, world_size);
    EXPECT_FALSE(run(balancer, Numbers(static_cast<size_t>(world_size), 1000), 50).changed);
  }
}

TEST(LoadBalancer, IgnoresAStepThatWasPartlyKept) {
  LoadBalancer balancer(6, 2);
  const StepShares rest = deal_rest(6, {{0, 1}, {}});
  for (int i = 0; i < 50; ++i) EXPECT_FALSE(balancer.observe(rest, Numbers{1, 1000000}).changed);
}

TEST(LoadBalancer, AlwaysDealsEachMicrobatchOnceAndNeverMakesAStepLonger) {
  std::mt19937 random(11);
  for (int trial = 0; trial < 300; ++trial) {
    const int world_size = 2 + static_cast<int>(random() % 6);
    const int64_t microbatches = world_size + static_cast<int64_t>(random() % 20);
    Numbers us;
    for (int rank = 0; rank < world_size; ++rank) us.push_back(500 + static_cast<int64_t>(random() % 5000));
    LoadBalancer balancer(microbatches, world_size);
    const auto longest = [&] {
      int64_t most = 0;
      for (size_t rank = 0; rank < us.size(); ++rank) most = std::max(most, us[rank] * counts(balancer)[rank]);
      return most;
    };
    const int64_t before = longest();
    run(balancer, us, 60);
    EXPECT_LE(longest(), before) << "seed 11, trial " << trial;
    const Numbers dealt = counts(balancer);
    EXPECT_EQ(std::accumulate(dealt.begin(), dealt.end(), int64_t{0}), microbatches);
    EXPECT_EQ(balancer.shares().own.back().back(), microbatches - 1);
  }
}

TEST(LoadBalancer, DealsNothingToRanksThatCannotComputeYet) {
  LoadBalancer balancer(12, std::vector<bool>{true, false, true, true});
  EXPECT_EQ(counts(balancer), (Numbers{4, 0, 4, 4}));
  const auto change = run(balancer, {1000, 1000, 2000, 1000});
  ASSERT_TRUE(change.changed);
  EXPECT_EQ(counts(balancer), (Numbers{5, 0, 2, 5}));
  ASSERT_EQ(change.slow.size(), 1U);
  EXPECT_EQ(change.slow[0].rank, 2);
}

}  // namespace
}  // namespace holdfast::worker
