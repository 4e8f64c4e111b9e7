// Sampling: the same seed gives the same text. It has the right distribution, and ends the text in the right place.
#include "model/sample.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "tests/model/small_model.h"

namespace holdfast::model {
namespace {

class SampleTest : public ::testing::Test {
 protected:
  SampleTest() {
    std::vector<float> parameters = perturbed_parameters(model_.gpt2, *model_.ops, 4);
    for (float& parameter : parameters)
      parameter *= 2;  // sharper logits: the likeliest id is neither certain nor as likely as the others
    write_parameters(model_.gpt2, *model_.ops, parameters);
  }
  std::vector<int32_t> ids(const SampleOptions& options) { return sample(model_.gpt2, context_, options); }

  SmallModel model_{ref_float32(), 1};
  std::vector<int32_t> context_ = {1, 2, 3};
};

TEST_F(SampleTest, IsAFunctionOfTheSeed) {
  const SampleOptions options = {.max_tokens = 30, .seed = 5};
  const std::vector<int32_t> first = ids(options);
  EXPECT_EQ(first.size(), 30U);
  EXPECT_EQ(ids(options), first);
  SampleOptions other = options;
  other.seed = 6;
  EXPECT_NE(ids(other), first);
}

TEST_F(SampleTest, ALongerTextStartsLikeAShorterOne) {
  const std::vector<int32_t> longer = ids({.max_tokens = 20, .seed = 5}), shorter = ids({.max_tokens = 7, .seed = 5});
  EXPECT_TRUE(std::equal(shorter.begin(), shorter.end(), longer.begin()));
}

TEST_F(SampleTest, TemperatureZeroTakesTheLikeliestWhateverTheSeed) {
  const std::vector<int32_t> greedy = ids({.max_tokens = 12, .temperature = 0, .seed = 1});
  EXPECT_EQ(ids({.max_tokens = 12, .temperature = 0, .seed = 2}), greedy);
  EXPECT_EQ(ids({.max_tokens = 12, .temperature = 1, .top_k = 1, .seed = 3}), greedy);
  const std::vector<float> logits = model_.gpt2.next_token_logits(context_);
  EXPECT_EQ(greedy[0], std::ranges::max_element(logits) - logits.begin());
}

TEST_F(SampleTest, OnlyTheLastBlockOfALongContextCounts) {
  const std::vector<int32_t> tail = {9, 8, 7, 6, 5, 4, 3, 2};
  std::vector<int32_t> longer = {1, 1, 1};
  longer.insert(longer.end(), tail.begin(), tail.end());
  const SampleOptions options = {.max_tokens = 10, .seed = 5};
  EXPECT_EQ(sample(model_.gpt2, longer, options), sample(model_.gpt2, tail, options));
}

TEST_F(SampleTest, HandsOverEachIdAndStopsWhenTold) {
  std::vector<int32_t> seen;
  const SampleOptions options = {.max_tokens = 10, .seed = 5};
  const auto all = sample(model_.gpt2, context_, options, [&](int32_t id) { return seen.push_back(id), true; });
  EXPECT_EQ(seen, all);
  const auto few = sample(model_.gpt2, context_, options, [calls = 0](int32_t) mutable { return ++calls < 3; });
  EXPECT_EQ(few, std::vector<int32_t>(all.begin(), all.begin() + 3));
}

TEST_F(SampleTest, EndsAtTheStopIdAndKeepsToTheVocabularyLimit) {
  const std::vector<int32_t> all = ids({.max_tokens = 30, .seed = 5});
  const auto stop = ids({.max_tokens = 30, .seed = 5, .stop_id = all[4]});
  EXPECT_EQ(stop, std::vector<int32_t>(all.begin(), std::ranges::find(all, all[4])));
  for (const int32_t id : ids({.max_tokens = 30, .seed = 5, .vocabulary_limit = 4})) EXPECT_LT(id, 4);
}

TEST_F(SampleTest, RefusesOptionsWithoutMeaning) {
  EXPECT_THROW(ids({.temperature = -1}), std::invalid_argument);
  EXPECT_THROW(ids({.temperature = NAN}), std::invalid_argument);
  EXPECT_THROW(ids({.top_k = -1}), std::invalid_argument);
  EXPECT_THROW(ids({.max_tokens = -1}), std::invalid_argument);
  context_ = {};
  EXPECT_THROW(ids({}), std::invalid_argument);
  context_ = {23};
  EXPECT_THROW(ids({}), std::invalid_argument);
}

TEST(DrawToken, FollowsTheSoftmaxAtItsTemperature) {
  const std::vector<float> logits = {0.0F, 1.0F, 2.0F, -1.0F};
  for (const double temperature : {0.5, 1.0, 3.0}) {
    std::vector<double> expected;
    double sum = 0;
    for (const float logit : logits) sum += expected.emplace_back(std::exp(logit / temperature));
    const int draws = 20'000;
    std::vector<int> counts(4);
    for (int i = 0; i < draws; ++i) ++counts[draw_token(logits, temperature, 0, uniform_at(1, 2, static_cast<uint64_t>(i)))];
    for (size_t id = 0; id < 4; ++id) {
      const double p = expected[id] / sum;
      EXPECT_NEAR(counts[id], draws * p, 5 * std::sqrt(draws * p * (1 - p))) << "temperature " << temperature << ", id " << id;
    }
  }
}

TEST(DrawToken, TopKLeavesOutTheRest) {
  const std::vector<float> logits = {0.0F, 0.1F, 0.2F, 0.2F, -5.0F};
  std::set<int32_t> drawn;
  for (int i = 0; i < 500; ++i) drawn.insert(draw_token(logits, 1, 3, uniform_at(1, 2, static_cast<uint64_t>(i))));
  EXPECT_EQ(drawn, (std::set<int32_t>{1, 2, 3}));
  EXPECT_EQ(draw_token(logits, 0, 0, 0.5), 2) << "the lower id of equals";
  EXPECT_EQ(draw_token(logits, 1, 100, 1e-9), 2);
}

}  // namespace
}  // namespace holdfast::model
