#include "model/distinct_tokens.h"

#include <gtest/gtest.h>

#include <vector>

namespace holdfast::model {
namespace {

using Ids = std::vector<int32_t>;

TEST(DistinctTokens, AreAscendingAndEachHasTheRunOfItsPositions) {
  DistinctTokens distinct(6);
  distinct.find(Ids{9, 4, 9, 0, 4, 4});
  EXPECT_EQ(Ids(distinct.ids().begin(), distinct.ids().end()), (Ids{0, 4, 9}));
  const Ids ids = {0, 4, 9}, starts = {0, 1, 4, 6}, positions = {3, 1, 4, 5, 0, 2};
  Ids expected = ids;
  expected.insert(expected.end(), starts.begin(), starts.end());
  expected.insert(expected.end(), positions.begin(), positions.end());
  EXPECT_EQ(Ids(distinct.runs().begin(), distinct.runs().end()), expected);
}

TEST(DistinctTokens, OfTheNextMicrobatchReplaceThem) {
  DistinctTokens distinct(3);
  distinct.find(Ids{1, 2, 3});
  const int32_t* memory = distinct.ids().data();
  distinct.find(Ids{5, 5, 5});
  EXPECT_EQ(Ids(distinct.ids().begin(), distinct.ids().end()), Ids{5});
  EXPECT_EQ(Ids(distinct.runs().begin(), distinct.runs().end()), (Ids{5, 0, 3, 0, 1, 2}));
  EXPECT_EQ(distinct.ids().data(), memory) << "without other memory";
}

}  // namespace
}  // namespace holdfast::model
