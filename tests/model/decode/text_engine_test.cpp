// Texts that are written together, on few pages, in any order, begun elsewhere or cancelled: each is what it is alone.
#include "model/decode/text_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>

#include "tests/model/decode/known_values.h"
#include "tests/model/small_model.h"

namespace holdfast::model {
namespace {

using ::testing::HasSubstr;

constexpr Gpt2Config kTextConfig = {.n_layer = 2, .n_embd = 32, .n_head = 2, .vocab_size = 61, .block_size = 200};

struct Outcome {
  std::vector<int32_t> ids;
  std::vector<float> chances;  // of these, then of the alternatives, token by token; the prompt's first
  TextEnd end = TextEnd::kNotYet;
  bool operator==(const Outcome&) const = default;
};

class TextEngineTest : public ::testing::Test {
 protected:
  TextEngineTest() {
    for (float& value : values_) value *= 3;  // the likeliest token is neither certain nor as likely as the others
  }
  std::unique_ptr<Decoder> decoder(int64_t pages, int64_t rows = 24) {
    return std::move(
        *Decoder::make(kTextConfig, *ops_, KnownValues(values_, kTextConfig), {.pages = pages, .rows = rows, .answers = rows}));
  }
  static void hear(std::map<int64_t, Outcome>& heard, const std::vector<TextProgress>& all) {
    for (const TextProgress& progress : all) {
      Outcome& outcome = heard[progress.text];
      EXPECT_EQ(outcome.end, TextEnd::kNotYet) << "a text that has ended is heard of";
      for (const WrittenToken& token : progress.tokens) {
        outcome.ids.push_back(token.token.id);
        outcome.chances.push_back(token.token.log_probability);
        for (const TokenChance& other : token.alternatives) outcome.chances.push_back(other.log_probability);
      }
      outcome.end = progress.end;
    }
  }
  Outcome alone(const Prompt& prompt) {
    const auto its_own = decoder(7, 40);
    TextEngine engine(*its_own);
    std::map<int64_t, Outcome> heard;
    EXPECT_TRUE(engine.add(prompt));
    while (!engine.is_idle()) hear(heard, engine.step());
    return heard.begin()->second;
  }
  // Some of them begin like others.
  static Prompt random_prompt(std::mt19937& random) {
    const auto below = [&](uint32_t bound) { return static_cast<int32_t>(random() % bound); };
    Prompt prompt;
    const int32_t stem = below(3), own = below(40);
    for (int32_t i = 0; i < 70 * stem; ++i) prompt.tokens.push_back((i * (stem + 3)) % 61);
    for (int32_t i = 0; i <= own; ++i) prompt.tokens.push_back(below(61));
    TextOptions& options = prompt.options;
    options = {.max_tokens = 1 + below(60),
               .temperature = below(4) * 0.5,
               .top_k = below(3) * 5,
               .top_p = below(2) == 0 ? 1 : 0.9,
               .seed = random() % 5,
               .choice = random() % 3};
    if (below(4) == 0) options.repetition_penalty = 1.3, options.presence_penalty = 0.2, options.frequency_penalty = 0.1;
    if (below(3) == 0) options.stop_ids = {below(61), below(61)};
    prompt.alternatives = below(3) == 0 ? 4 : 0;
    prompt.prompt_losses = below(5) == 0;
    return prompt;
  }

  std::unique_ptr<kernels::DeviceOps> ops_ = kernels::make_cpu_ops(kernels::DType::kFloat32, 1);
  SmallModel model_{kernels::make_cpu_ops(kernels::DType::kFloat32, 1), 1, kTextConfig};
  std::vector<float> values_ = perturbed_parameters(model_.gpt2, *model_.ops, 4);
};

TEST_F(TextEngineTest, ATextIsWhatItIsAloneWhateverElseIsWritten) {
  std::mt19937 random(11);
  for (const int64_t pages : {7, 12, 60}) {
    const auto shared = decoder(pages);
    TextEngine engine(*shared);
    std::map<int64_t, Outcome> heard, expected;
    std::set<int64_t> cancelled;
    for (int n = 0; n < 60 || !engine.is_idle();) {
      for (uint32_t more = random() % 3; more > 0 && n < 60; --more, ++n) {
        Prompt prompt = random_prompt(random);
        const Outcome whole = alone(prompt);
        // Some were begun elsewhere.
        const auto prompt_heard = prompt.prompt_losses ? static_cast<int64_t>(prompt.tokens.size()) - 1 : 0;
        const auto written = static_cast<int64_t>(whole.ids.size()) - prompt_heard;
        Outcome rest = whole;
        if (random() % 3 == 0 && written > 1 && prompt.alternatives == 0 && !prompt.prompt_losses) {
          const auto there = static_cast<int64_t>(random() % static_cast<uint64_t>(written - 1)) + 1;
          prompt.written.assign(whole.ids.begin(), whole.ids.begin() + there);
          rest.ids.erase(rest.ids.begin(), rest.ids.begin() + there);
          rest.chances.erase(rest.chances.begin(), rest.chances.begin() + there);
        }
        const auto number = engine.add(prompt);
        ASSERT_TRUE(number) << number.error();
        expected[*number] = rest;
      }
      hear(heard, engine.step());
      if (random() % 25 == 0 && !expected.empty()) {
        auto victim = expected.begin();
        std::advance(victim, random() % expected.size());
        if (heard[victim->first].end == TextEnd::kNotYet) {
          engine.cancel(victim->first);
          cancelled.insert(victim->first);
        }
      }
    }
    for (const auto& [number, outcome] : expected) {
      if (cancelled.contains(number)) continue;
      EXPECT_EQ(heard[number], outcome) << "text " << number << " of " << pages << " pages";
    }
    const TextEngine::Load load = engine.load();
    EXPECT_EQ(load.pages_held, 0);
    EXPECT_GT(load.prompt_tokens_found, 0);
    EXPECT_TRUE(pages > 7 || load.began_again > 0) << "pages were never short: the test shows less than it says";
  }
}

TEST_F(TextEngineTest, APromptThatWasReadIsNotReadAgain) {
  const auto one = decoder(30);
  TextEngine engine(*one);
  std::map<int64_t, Outcome> heard;
  Prompt prompt;
  prompt.tokens.resize(100);
  std::iota(prompt.tokens.begin(), prompt.tokens.end(), -39);
  for (int32_t& id : prompt.tokens) id = (id + 61) % 61;
  prompt.options.max_tokens = 3;
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(engine.add(prompt));
    while (!engine.is_idle()) hear(heard, engine.step());
  }
  EXPECT_EQ(heard.at(1), heard.at(2));
  EXPECT_EQ(engine.load().prompt_tokens_found, 96) << "three pages of the second prompt";
}

TEST_F(TextEngineTest, EndsAtTheModelsLastPosition) {
  Prompt prompt{.tokens = std::vector<int32_t>(190, 5), .options = {.max_tokens = 100}};
  const Outcome outcome = alone(prompt);
  EXPECT_EQ(outcome.end, TextEnd::kLength);
  EXPECT_EQ(outcome.ids.size(), 11U) << "positions 190 to 199, and a token after the last";
}

TEST_F(TextEngineTest, RefusesInWords) {
  const auto one = decoder(3);
  TextEngine engine(*one);
  const auto refusal = [&](std::vector<int32_t> tokens, const TextOptions& options) {
    const auto added = engine.add({.tokens = std::move(tokens), .options = options});
    return added ? std::string() : added.error();
  };
  EXPECT_THAT(refusal({}, {}), HasSubstr("prompt: no tokens"));
  EXPECT_THAT(refusal({61}, {}), HasSubstr("token 61 is not below the model's vocab_size 61"));
  EXPECT_THAT(refusal(std::vector<int32_t>(201, 1), {}), HasSubstr("201 tokens, expected at most the model's block_size 200"));
  EXPECT_THAT(refusal({1}, {.max_tokens = 150}), HasSubstr("needs 5 pages of 32, and there are 3"));
  EXPECT_THAT(refusal({1}, {.max_tokens = 0}), HasSubstr("max_tokens: 0, expected at least 1"));
  EXPECT_THAT(refusal({1}, {.max_tokens = 5, .temperature = -1, .top_p = 0}),
              HasSubstr("temperature: -1, expected 0 or more; top_p: 0"));
  EXPECT_TRUE(engine.is_idle());
}

}  // namespace
}  // namespace holdfast::model
