#include "model/distinct_tokens.h"

#include <gtest/gtest.h>

#include <vector>

namespace holdfast::model {
namespace {

using Ids = std::vector<int32_t>;

TEST(DistinctTokens, AreAscendingAndEachTokenHasItsPlaceAmongThem) {
  DistinctTokens distinct(6);
  distinct.find(Ids{9, 4, 9, 0, 4, 4});
  EXPECT_EQ(Ids(distinct.ids().begin(), distinct.ids().end()), (Ids{0, 4, 9}));
  EXPECT_EQ(Ids(distinct.places().begin(), distinct.places().end()), (Ids{2, 1, 2, 0, 1, 1}));
}

TEST(DistinctTokens, OfTheNextMicrobatchReplaceThem) {
  DistinctTokens distinct(3);
  distinct.find(Ids{1, 2, 3});
  const int32_t* memory = distinct.ids().data();
  distinct.find(Ids{5, 5, 5});
  EXPECT_EQ(Ids(distinct.ids().begin(), distinct.ids().end()), Ids{5});
  EXPECT_EQ(Ids(distinct.places().begin(), distinct.places().end()), (Ids{0, 0, 0}));
  EXPECT_EQ(distinct.ids().data(), memory) << "without other memory";
}

}  // namespace
}  // namespace holdfast::model
