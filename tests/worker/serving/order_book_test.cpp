// News of texts that are told in parts, and of texts whose news were refused.
#include "worker/replica/order_book.h"

#include <gtest/gtest.h>

namespace holdfast::worker {
namespace {

using rendezvous::TextNews;
using rendezvous::TextOutcome;

std::vector<model::WrittenToken> tokens(int32_t first, int32_t count) {
  std::vector<model::WrittenToken> all(static_cast<size_t>(count));
  for (int32_t i = 0; i < count; ++i) {
    all[static_cast<size_t>(i)].token.id = first + i;
    all[static_cast<size_t>(i)].alternatives.resize(20);
  }
  return all;
}

class OrderBookTest : public ::testing::Test {
 protected:
  OrderBookTest() { book_.hear_life("life"); }
  int64_t begin(int64_t text) { return book_.take({.number = text, .text = text, .source = "s"}).value(); }

  OrderBook book_;
};

TEST_F(OrderBookTest, NewsThatAreTooManyForOneReportComeInOrder) {
  const int64_t one = begin(1), other = begin(2);
  book_.add(one, tokens(0, 1000), TextOutcome::kLength);
  book_.add(other, tokens(0, 3), TextOutcome::kGoesOn);
  int64_t told = 0, reports = 0;
  bool has_ended = false;
  for (; book_.has_news(); ++reports) {
    for (const TextNews& news : book_.take_news(100'000)) {
      ASSERT_LE(news.tokens.size(), 100U);
      if (news.text == 2) continue;
      EXPECT_FALSE(has_ended);
      EXPECT_EQ(news.first, told);
      for (const model::WrittenToken& token : news.tokens) EXPECT_EQ(token.token.id, told++);
      has_ended = news.end == "length";
    }
  }
  EXPECT_EQ(told, 1000);
  EXPECT_TRUE(has_ended);
  EXPECT_GT(reports, 10);
  book_.add(other, tokens(3, 1), TextOutcome::kGoesOn);
  EXPECT_EQ(book_.take_news(100'000).at(0).first, 3);
}

TEST_F(OrderBookTest, ATokenIsToldHoweverLittleIsTaken) {
  book_.add(begin(1), tokens(0, 2), TextOutcome::kGoesOn);
  EXPECT_EQ(book_.take_news(1).at(0).tokens.size(), 1U);
  EXPECT_EQ(book_.take_news(1).at(0).first, 1);
  EXPECT_FALSE(book_.has_news());
}

TEST_F(OrderBookTest, TextsWhoseNewsWereRefusedAreGivenBackOnce) {
  const int64_t ended = begin(1), goes_on = begin(2);
  book_.add(ended, tokens(0, 2), TextOutcome::kStop);
  book_.add(goes_on, tokens(0, 2), TextOutcome::kGoesOn);
  const auto refused = book_.take_news(100'000);
  book_.add(goes_on, tokens(2, 1), TextOutcome::kGoesOn);
  book_.give_back_what_was_refused(refused);
  EXPECT_FALSE(book_.add(goes_on, tokens(3, 1), TextOutcome::kGoesOn)) << "another replica goes on with it";
  const auto news = book_.take_news(100'000);
  ASSERT_EQ(news.size(), 2U);
  for (const TextNews& each : news) {
    EXPECT_EQ(each.end, "given_back");
    EXPECT_EQ(each.first, 0);
    EXPECT_TRUE(each.tokens.empty());
  }
  book_.give_back_what_was_refused(news);
  EXPECT_FALSE(book_.has_news());
}

}  // namespace
}  // namespace holdfast::worker
