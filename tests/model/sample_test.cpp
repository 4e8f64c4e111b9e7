// Sampling: the same seed gives the same text, which ends in the right place.
#include "model/sample.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "tests/model/decode/known_values.h"
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
    decoder_ = std::move(*Decoder::make(kSmallConfig, *model_.ops, KnownValues(parameters, kSmallConfig),
                                        {.pages = 1, .rows = 8, .answers = 4}));
  }
  std::vector<int32_t> ids(const TextOptions& options) { return sample(*decoder_, context_, options); }

  SmallModel model_{ref_float32(), 1};
  std::unique_ptr<Decoder> decoder_;
  std::vector<int32_t> context_ = {1, 2, 3};
};

TEST_F(SampleTest, IsAFunctionOfTheSeed) {
  const TextOptions options = {.max_tokens = 30, .seed = 5};
  const std::vector<int32_t> first = ids(options);
  EXPECT_EQ(first.size(), 30U);
  EXPECT_EQ(ids(options), first);
  TextOptions other = options;
  other.seed = 6;
  EXPECT_NE(ids(other), first);
  other = options;
  other.choice = 1;
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
  constexpr int32_t kPage = 0;
  const Feed feed{context_, 0, {&kPage, 1}, 1};
  const std::span<const float> logits = decoder_->feed({&feed, 1});
  EXPECT_EQ(greedy[0], std::ranges::max_element(logits) - logits.begin());
}

TEST_F(SampleTest, OnlyTheLastBlockOfALongContextCounts) {
  const std::vector<int32_t> tail = {9, 8, 7, 6, 5, 4, 3, 2};
  std::vector<int32_t> longer = {1, 1, 1};
  longer.insert(longer.end(), tail.begin(), tail.end());
  const TextOptions options = {.max_tokens = 10, .seed = 5};
  EXPECT_EQ(sample(*decoder_, longer, options), sample(*decoder_, tail, options));
}

TEST_F(SampleTest, HandsOverEachIdAndStopsWhenTold) {
  std::vector<int32_t> seen;
  const TextOptions options = {.max_tokens = 10, .seed = 5};
  const auto all = sample(*decoder_, context_, options, [&](int32_t id) { return seen.push_back(id), true; });
  EXPECT_EQ(seen, all);
  const auto few = sample(*decoder_, context_, options, [calls = 0](int32_t) mutable { return ++calls < 3; });
  EXPECT_EQ(few, std::vector<int32_t>(all.begin(), all.begin() + 3));
}

TEST_F(SampleTest, EndsAtTheStopIdAndKeepsToTheVocabularyLimit) {
  const std::vector<int32_t> all = ids({.max_tokens = 30, .seed = 5});
  const auto stop = ids({.max_tokens = 30, .seed = 5, .stop_ids = {all[4]}});
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

TEST(ChooseToken, FollowsTheSoftmaxAtItsTemperature) {
  const std::vector<float> logits = {0.0F, 1.0F, 2.0F, -1.0F};
  for (const double temperature : {0.5, 1.0, 3.0}) {
    std::vector<double> expected;
    double sum = 0;
    for (const float logit : logits) sum += expected.emplace_back(std::exp(logit / temperature));
    const int draws = 20'000;
    std::vector<int> counts(4);
    for (int i = 0; i < draws; ++i)
      ++counts[static_cast<size_t>(choose_token({.temperature = temperature, .seed = 1, .drawn = i}, {}, 0, logits))];
    for (size_t id = 0; id < 4; ++id) {
      const double p = expected[id] / sum;
      EXPECT_NEAR(counts[id], draws * p, 5 * std::sqrt(draws * p * (1 - p))) << "temperature " << temperature << ", id " << id;
    }
  }
}

TEST(ChooseToken, TopKLeavesOutTheRest) {
  const std::vector<float> logits = {0.0F, 0.1F, 0.2F, 0.2F, -5.0F};
  std::set<int32_t> drawn;
  for (int i = 0; i < 500; ++i) drawn.insert(choose_token({.top_k = 3, .seed = 1, .drawn = i}, {}, 0, logits));
  EXPECT_EQ(drawn, (std::set<int32_t>{1, 2, 3}));
  EXPECT_EQ(choose_token({.temperature = 0}, {}, 0, logits), 2) << "the lower id of equals";
}

// Probabilities 0.5, 0.3, 0.15, 0.05, of which the likeliest that have 0.75 are the first two.
TEST(ChooseToken, TopPLeavesOutTheUnlikely) {
  const std::vector<float> logits = {std::log(0.05F), std::log(0.5F), std::log(0.3F), std::log(0.15F)};
  std::map<int32_t, int> drawn;
  for (int i = 0; i < 8'000; ++i) ++drawn[choose_token({.top_p = 0.75, .seed = 1, .drawn = i}, {}, 0, logits)];
  EXPECT_EQ(drawn.size(), 2U);
  EXPECT_NEAR(drawn[1], 5'000, 250);
  EXPECT_NEAR(drawn[2], 3'000, 250);
}

TEST(ChooseToken, PenaltiesAreOfTokensThatAreThere) {
  const std::vector<float> logits = {1.0F, 0.9F, -1.0F, -1.1F};
  const std::vector<int32_t> context = {0, 2, 0};  // the last of them the text's own
  EXPECT_EQ(choose_token({.temperature = 0, .repetition_penalty = 1.2}, context, 1, logits), 1);
  EXPECT_EQ(choose_token({.temperature = 0, .presence_penalty = 0.2}, context, 1, logits), 1);
  EXPECT_EQ(choose_token({.temperature = 0, .presence_penalty = 0.2}, context, 0, logits), 0) << "the prompt's do not count";
  EXPECT_EQ(choose_token({.temperature = 0, .frequency_penalty = 0.06}, context, 1, logits), 0);
  EXPECT_EQ(choose_token({.temperature = 0, .frequency_penalty = 0.06}, context, 3, logits), 1) << "twice";
}

}  // namespace
}  // namespace holdfast::model
