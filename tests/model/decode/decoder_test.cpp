// A decoder's logits and losses: those of the training's forward pass, bit for bit, however tokens come together in passes.
#include "model/decode/decoder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "tests/model/decode/known_values.h"
#include "tests/model/small_model.h"

namespace holdfast::model {
namespace {

// Longer than two blocks of queries, more tokens than a tile of the head has, and none of these a multiple of anything, nor
// what a head has.
constexpr Gpt2Config kDecoderConfig = {.n_layer = 2, .n_embd = 48, .n_head = 2, .vocab_size = 1100, .block_size = 301};

struct OpSet {
  std::string name;
  bool ref;
  kernels::DType dtype;
  kernels::WeightForm form = kernels::WeightForm::kActivations;
};

class DecoderTest : public ::testing::TestWithParam<OpSet> {
 protected:
  static std::unique_ptr<kernels::DeviceOps> ops(int threads = 2) {
    return GetParam().ref ? kernels::make_ref_ops(GetParam().dtype) : kernels::make_cpu_ops(GetParam().dtype, threads);
  }
  std::unique_ptr<Decoder> decoder(const Decoder::Limits& limits) {
    return std::move(*Decoder::make(kDecoderConfig, *ops_, KnownValues(values_, kDecoderConfig), limits, GetParam().form));
  }
  static std::vector<int32_t> text(uint64_t seed, int64_t count) {
    std::vector<int32_t> tokens = random_microbatch(kDecoderConfig, 1, seed).tokens;
    tokens.resize(static_cast<size_t>(count));
    return tokens;
  }
  // Of token t + 1 for each t but the last, of one sequence that has the decoder for itself and is fed at once.
  std::vector<float> losses_alone(std::span<const int32_t> tokens) {
    const auto alone = decoder({.pages = 10, .rows = kDecoderConfig.block_size, .answers = kDecoderConfig.block_size});
    std::vector<int32_t> pages(10);
    std::iota(pages.begin(), pages.end(), 0);
    const auto count = static_cast<int64_t>(tokens.size()) - 1;
    const Feed feed{tokens.first(static_cast<size_t>(count)), 0, pages, count};
    alone->feed({&feed, 1});
    return alone->losses(tokens.subspan(1));
  }

  std::unique_ptr<kernels::DeviceOps> ops_ = ops();
  SmallModel trained_{ops(), 1, kDecoderConfig};
  std::vector<float> values_ = perturbed_parameters(trained_.gpt2, *trained_.ops, 4);
};

TEST_P(DecoderTest, HasTheLossesOfTheTrainingsForwardPass) {
  if (GetParam().form != kernels::WeightForm::kActivations) GTEST_SKIP() << "training has no weights of fewer bits";
  const Microbatch microbatch = random_microbatch(kDecoderConfig, 1, 3);
  const auto count = static_cast<size_t>(kDecoderConfig.block_size);
  std::vector<int32_t> tokens = microbatch.tokens;
  const auto one = decoder({.pages = 10, .rows = 301, .answers = 301});
  std::vector<int32_t> pages(10);
  std::iota(pages.begin(), pages.end(), 0);
  const Feed feed{tokens, 0, pages, kDecoderConfig.block_size};
  one->feed({&feed, 1});
  const std::vector<float> losses = one->losses(microbatch.targets);
  EXPECT_EQ(ops_->sum(losses.data(), static_cast<int64_t>(count)) / static_cast<double>(count),
            trained_.gpt2.evaluate_microbatch(tokens, microbatch.targets));
}

// The first layer by itself, as another program has it.
class FirstLayer final : public EarlierLayers {
 public:
  explicit FirstLayer(Decoder& decoder) : decoder_(decoder) {}
  BetweenLayers feed(std::span<const Feed> feeds) override { return decoder_.feed_through(feeds, {}); }

 private:
  Decoder& decoder_;
};

TEST_P(DecoderTest, DividedBetweenItsLayersHasTheSameBits) {
  const std::vector<int32_t> tokens = text(3, 200);
  const std::vector<float> whole = losses_alone(tokens);
  const Decoder::Limits limits{.pages = 10, .rows = kDecoderConfig.block_size, .answers = kDecoderConfig.block_size};
  const KnownValues values(values_, kDecoderConfig);
  const auto of_first = ops(), of_last = ops();
  const auto first =
      std::move(*Decoder::make_part(kDecoderConfig, *of_first, values, limits, GetParam().form, {0, 1}, nullptr));
  FirstLayer earlier(*first);
  const auto last = std::move(*Decoder::make_part(kDecoderConfig, *of_last, values, limits, GetParam().form, {1, 2}, &earlier));
  std::vector<int32_t> pages(10);
  std::iota(pages.begin(), pages.end(), 0);
  std::vector<float> losses;
  for (size_t at = 0; at + 1 < tokens.size();) {  // in pieces
    const size_t count = std::min<size_t>(at == 0 ? 70 : 33, tokens.size() - 1 - at);
    const Feed feed{std::span(tokens).subspan(at, count), static_cast<int64_t>(at), pages, static_cast<int64_t>(count)};
    last->feed({&feed, 1});
    const auto of_piece = last->losses(std::span(tokens).subspan(at + 1, count));
    losses.insert(losses.end(), of_piece.begin(), of_piece.end());
    at += count;
  }
  EXPECT_EQ(losses, whole);
}

TEST_P(DecoderTest, ATokensLossHangsOnTheTokensBeforeItAlone) {
  std::mt19937 random(7);
  const auto at_most = [&](int64_t most) { return static_cast<int64_t>(random() % static_cast<uint64_t>(most)) + 1; };
  struct Sequence {
    std::vector<int32_t> tokens, pages;
    int64_t fed = 0;
    std::vector<float> expected;
  };
  std::vector<Sequence> sequences(5);
  const auto together = decoder({.pages = 64, .rows = 64, .answers = 64});
  std::vector<int32_t> free(64);
  std::iota(free.begin(), free.end(), 0);
  std::ranges::shuffle(free, random);
  for (size_t i = 0; i < sequences.size(); ++i) {
    sequences[i].tokens = text(i, i == 0 ? 301 : 2 + at_most(298));
    sequences[i].expected = losses_alone(sequences[i].tokens);
  }
  // Each pass: some of the sequences, each with a token or several.
  for (int pass = 0; pass < 10'000; ++pass) {
    std::vector<Feed> feeds;
    std::vector<int32_t> targets;
    std::vector<float> expected;
    int64_t room = 64;
    for (Sequence& sequence : sequences) {
      const int64_t left = static_cast<int64_t>(sequence.tokens.size()) - 1 - sequence.fed;
      const int64_t count = std::min({left, room, random() % 3 == 0 ? at_most(40) : 1});
      if (count == 0 || random() % 4 == 0) continue;
      while (static_cast<int64_t>(sequence.pages.size()) < together->pages_of(sequence.fed + count)) {
        sequence.pages.push_back(free.back());
        free.pop_back();
      }
      const auto first = static_cast<size_t>(sequence.fed), many = static_cast<size_t>(count);
      feeds.push_back({std::span(sequence.tokens).subspan(first, many), sequence.fed, sequence.pages, count});
      targets.insert(targets.end(), sequence.tokens.begin() + sequence.fed + 1,
                     sequence.tokens.begin() + sequence.fed + 1 + count);
      expected.insert(expected.end(), sequence.expected.begin() + sequence.fed,
                      sequence.expected.begin() + sequence.fed + count);
      sequence.fed += count;
      room -= count;
    }
    if (feeds.empty()) continue;
    together->feed(feeds);
    ASSERT_EQ(together->losses(targets), expected) << "pass " << pass;
  }
  for (const Sequence& sequence : sequences) EXPECT_EQ(sequence.fed + 1, static_cast<int64_t>(sequence.tokens.size()));
}

TEST_P(DecoderTest, WithAHeadOfItsOwnHasTheLossesOfTheTrainingToo) {
  const Gpt2Config config = untied({.n_layer = 2, .n_embd = 48, .n_head = 2, .vocab_size = 90, .block_size = 40});
  SmallModel trained(ops(), 1, config);
  const KnownValues values(perturbed_parameters(trained.gpt2, *trained.ops, 6), config);
  const Microbatch microbatch = random_microbatch(config, 1, 3);
  const std::vector<int32_t> pages{0, 1};
  const Feed feed{microbatch.tokens, 0, pages, config.block_size};
  const Decoder::Limits limits{.pages = 2, .rows = config.block_size, .answers = config.block_size};
  const auto whole = std::move(*Decoder::make(config, *ops_, values, limits, GetParam().form));
  whole->feed({&feed, 1});
  const std::vector<float> losses = whole->losses(microbatch.targets);
  const auto of_first = ops(), of_last = ops();
  const auto first = std::move(*Decoder::make_part(config, *of_first, values, limits, GetParam().form, {0, 1}, nullptr));
  FirstLayer earlier(*first);
  const auto last = std::move(*Decoder::make_part(config, *of_last, values, limits, GetParam().form, {1, 2}, &earlier));
  last->feed({&feed, 1});
  EXPECT_EQ(last->losses(microbatch.targets), losses);
  if (GetParam().form != kernels::WeightForm::kActivations) return;  // training has no weights of fewer bits
  EXPECT_EQ(ops_->sum(losses.data(), config.block_size) / static_cast<double>(config.block_size),
            trained.gpt2.evaluate_microbatch(microbatch.tokens, microbatch.targets));
}

TEST_P(DecoderTest, ThreadsChangeNoBit) {
  const std::vector<int32_t> tokens = text(9, 290);
  const std::vector<float> two = losses_alone(tokens);
  ops_ = ops(5);
  EXPECT_EQ(losses_alone(tokens), two);
}

INSTANTIATE_TEST_SUITE_P(Kinds, DecoderTest,
                         ::testing::Values(OpSet{"ref_float32", true, kernels::DType::kFloat32},
                                           OpSet{"cpu_float32", false, kernels::DType::kFloat32},
                                           OpSet{"cpu_bfloat16", false, kernels::DType::kBFloat16},
                                           OpSet{"cpu_float16", false, kernels::DType::kFloat16},
                                           OpSet{"ref_int8", true, kernels::DType::kBFloat16, kernels::WeightForm::kInt8},
                                           OpSet{"cpu_int8", false, kernels::DType::kBFloat16, kernels::WeightForm::kInt8},
                                           OpSet{"cpu_int4", false, kernels::DType::kBFloat16, kernels::WeightForm::kInt4}),
                         [](const auto& kind) { return kind.param.name; });

}  // namespace
}  // namespace holdfast::model
