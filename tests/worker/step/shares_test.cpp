// Dealing the rest of a step that other members had begun.
#include "worker/step/shares.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace holdfast::worker {
namespace {

using Lists = std::vector<Microbatches>;

Microbatches all_of(const StepShares& shares) {
  Microbatches all;
  for (const auto& own : shares.own) all.insert(all.end(), own.begin(), own.end());
  std::ranges::sort(all);
  return all;
}

TEST(StepShares, WithNothingKeptAreThoseOfEveryOtherStep) {
  const StepShares shares = deal_rest(6, Lists(4));
  EXPECT_EQ(shares.to_compute, (Lists{{0, 1}, {2, 3}, {4}, {5}}));
  EXPECT_EQ(shares.own, shares.to_compute);
  EXPECT_EQ(shares.kept, 0);
}

TEST(StepShares, OnlyWhatTheLostRankHadIsComputedAgain) {
  const StepShares shares = deal_rest(6, {{0, 1}, {2, 3}});  // a third rank had 4 and 5, and is gone
  EXPECT_EQ(shares.kept, 4);
  EXPECT_EQ(shares.to_compute, (Lists{{4}, {5}}));
  EXPECT_EQ(shares.own, (Lists{{0, 1, 4}, {2, 3, 5}}));
}

TEST(StepShares, ARankThatComesTakesFromTheRest) {
  const StepShares shares = deal_rest(8, {{0, 1, 2}, {}});
  EXPECT_EQ(shares.to_compute, (Lists{{3}, {4, 5, 6, 7}}));
}

TEST(StepShares, RanksThatCannotComputeYetGetNothing) {
  EXPECT_EQ(deal_rest(6, Lists(4), {true, true, false, true}).to_compute, (Lists{{0, 1}, {2, 3}, {}, {4, 5}}));
  EXPECT_EQ(deal_rest(6, {{}, {0, 1}, {}}, {false, true, true}).to_compute, (Lists{{}, {2}, {3, 4, 5}}));
  const auto dealt = for_ledger(deal_rest(6, Lists(3), {true, true, false}));
  EXPECT_EQ(dealt, (std::vector<rendezvous::DealtShare>{{0, 0, 3}, {1, 3, 6}})) << "the ledger is told, for it is not as usual";
}

TEST(StepShares, WhatTwoKeptCountsOnceAndTheOtherStartsAnew) {
  const StepShares shares = deal_rest(4, {{0, 1}, {1, 2}});
  EXPECT_EQ(shares.keeps, (std::vector<bool>{true, false}));
  EXPECT_EQ(shares.own, (Lists{{0, 1}, {2, 3}}));
  EXPECT_EQ(shares.to_compute[1], (Microbatches{2, 3}));
}

TEST(StepShares, AlwaysHaveEachMicrobatchOnceAndFollowFromTheListsAlone) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 2000; ++trial) {
    const int64_t microbatches = 1 + static_cast<int64_t>(random() % 12);
    Lists kept(1 + random() % 5);
    for (auto& list : kept) {
      for (int64_t m = 0; m < microbatches; ++m) {
        if (random() % 4 == 0) list.push_back(m);
      }
    }
    const StepShares shares = deal_rest(microbatches, kept);
    const Microbatches all = all_of(shares);
    ASSERT_EQ(all.size(), static_cast<size_t>(microbatches));
    for (int64_t m = 0; m < microbatches; ++m) ASSERT_EQ(all[static_cast<size_t>(m)], m);
    for (size_t rank = 0; rank < kept.size(); ++rank) {
      if (!shares.keeps[rank]) continue;
      ASSERT_TRUE(shares.kept == 0 || std::ranges::includes(shares.own[rank], kept[rank]));
      ASSERT_EQ(shares.own[rank].size(), shares.to_compute[rank].size() + (shares.kept == 0 ? 0 : kept[rank].size()));
    }
  }
}

TEST(StepShares, GoToTheLedgerInRuns) {
  EXPECT_TRUE(for_ledger(deal_rest(6, Lists(2))).empty()) << "as in every other step";
  EXPECT_TRUE(for_ledger(deal_rest(4, Lists(2)), 5).empty()) << "two replicas of 5 microbatches each are 10 of 20";
  const auto replicas = for_ledger(deal_rest(3, Lists(2)), 5);
  ASSERT_EQ(replicas.size(), 2U) << "15 microbatches would be 8 and 7";
  EXPECT_EQ(replicas[0], (rendezvous::DealtShare{0, 0, 10}));
  EXPECT_EQ(replicas[1], (rendezvous::DealtShare{1, 10, 15}));
  const auto dealt = for_ledger(deal_rest(6, {{0, 1}, {2, 3}}));
  EXPECT_EQ(dealt, (std::vector<rendezvous::DealtShare>{{0, 0, 2}, {0, 4, 5}, {1, 2, 4}, {1, 5, 6}}));
}

TEST(KeptOnTheWire, ComesBackAsItWentAndNonsenseIsRefused) {
  EXPECT_EQ(decode_kept(encode_kept(Microbatches{1, 4, 5}), 6), (Microbatches{1, 4, 5}));
  EXPECT_EQ(decode_kept(encode_kept({}), 6), Microbatches{});
  for (const Microbatches& wrong : Lists{{6}, {-1}, {2, 2}, {3, 1}}) EXPECT_FALSE(decode_kept(encode_kept(wrong), 6));
  auto cut = encode_kept(Microbatches{1, 2});
  cut.pop_back();
  EXPECT_FALSE(decode_kept(cut, 6));
  EXPECT_FALSE(decode_kept({}, 6));
}

TEST(SharesDeathTest, AMicrobatchThatIsDealtTwiceOrNotAtAllEndsTheProcess) {
  StepShares shares = deal_counts(std::vector<int64_t>{2, 2});
  require_dealt_once(shares, 4, 6);
  shares.own[1] = {1, 3};
  EXPECT_DEATH(require_dealt_once(shares, 4, 6),
               "broken invariant: step 7: microbatch 1 of 4 is dealt twice, to ranks 0 and 1.* This is a bug");
  shares.own[1] = {3};
  EXPECT_DEATH(require_dealt_once(shares, 4, 6), "step 7: microbatch 2 of 4 is dealt to no rank");
  shares.own[1] = {2, 4};
  EXPECT_DEATH(require_dealt_once(shares, 4, 6), "microbatch 4 of 4 is dealt to rank 1");
}

}  // namespace
}  // namespace holdfast::worker
