#include "worker/replica/replica_memory.h"

#include <gmock/gmock.h>

#include "model/decode/precision.h"
#include "tests/model/decode/known_values.h"
#include "worker/replica/ready_model.h"

namespace holdfast::worker {
namespace {

using testing::HasSubstr;

constexpr double kGib = 1 << 30, kMib = 1 << 20;
const model::Gpt2Config kSmall{.n_layer = 12, .n_embd = 768, .n_head = 12, .vocab_size = 50257, .block_size = 1024};

ReplicaMemory of_small(double weight_bytes, int64_t models = 1) {
  ReplicaMemory memory = replica_memory(kSmall, {0, kSmall.n_layer}, weight_bytes);
  memory.page = 1.125 * kMib;  // 32 tokens, 12 layers, keys and values of 768 in bfloat16
  memory.fewest_pages = 32;
  memory.most_pages = 910;
  memory.models = models;
  memory.precision = "bfloat16";
  return memory;
}

TEST(ReplicaMemory, CountsTheTiedHeadBesideTheEmbeddingAndALayerWithItsStage) {
  const double all = replica_memory(kSmall, {0, 12}, 1).weights;
  EXPECT_NEAR(all, 124'439'808.0 + 50257.0 * 768, 1);
  const double first = replica_memory(kSmall, {0, 5}, 1).weights, last = replica_memory(kSmall, {5, 12}, 1).weights;
  EXPECT_EQ(first + last, all);
  EXPECT_GT(last, first);
}

// The layers before a decoder's own, in a test that feeds nothing.
class NothingBefore final : public model::EarlierLayers {
 public:
  model::BetweenLayers feed(std::span<const model::Feed>) override { return {}; }
};

TEST(ReplicaMemory, CountsTheWeightsThatADecoderKeepsInEveryPrecision) {
  const model::Gpt2Config config{.n_layer = 2, .n_embd = 256, .n_head = 4, .vocab_size = 1024, .block_size = 128};
  const auto count = static_cast<size_t>(model::ParameterTable(config).total);
  const model::KnownValues values(std::vector<float>(count, 0.01F), config);
  NothingBefore before;
  for (const model::Precision& precision : model::kPrecisions) {
    const auto ops = kernels::make_cpu_ops(precision.activations, 1);
    for (const auto& layers : {model::LayerRange{0, 2}, {0, 1}, {1, 2}}) {
      const auto decoder = model::Decoder::make_part(config, *ops, values, {.pages = 1, .rows = 1, .answers = 1},
                                                     precision.weights, layers, layers.first > 0 ? &before : nullptr);
      ASSERT_TRUE(decoder) << decoder.error();
      const auto kept = static_cast<double>((*decoder)->memory_use().weights);
      EXPECT_NEAR(weights_memory(config, layers, *ops, precision.weights).weights / kept, 1, 0.03)
          << precision.name << ", layers from " << layers.first << " up to " << layers.end << ", " << kept << " bytes";
    }
  }
}

TEST(ReplicaMemory, PagesAreWhatTheLimitLeaves) {
  const ReplicaMemory memory = of_small(2);
  EXPECT_EQ(pages_within({}, memory), 910) << "no limit is known";
  EXPECT_EQ(pages_within({8 * kGib, "--memory_gib 8"}, memory), 910);
  const auto some = pages_within({1.25 * kGib, "--memory_gib 1.25"}, memory);
  ASSERT_TRUE(some) << some.error();
  EXPECT_GT(*some, 32);
  EXPECT_LT(*some, 910);
}

TEST(ReplicaMemory, WhatIsRefusedIsNamedAndWhatWouldFit) {
  const auto refused = pages_within({0.75 * kGib, "--memory_gib 0.75"}, of_small(2));
  ASSERT_FALSE(refused);
  EXPECT_THAT(
      refused.error(),
      HasSubstr("weights 0.30 GiB in bfloat16, keys and values of one text 0.04 GiB), which is above --memory_gib 0.75: "
                "choose a --precision of fewer bits"));
  const auto followed = pages_within({1.1 * kGib, "--memory_gib 1.1"}, of_small(2, 2));
  ASSERT_FALSE(followed);
  EXPECT_THAT(followed.error(),
              HasSubstr("two checkpoints at once: the program and what reading takes 0.62 GiB, weights 0.61 GiB"));
  EXPECT_TRUE(pages_within({1.1 * kGib, "--memory_gib 1.1"}, of_small(2)));
}

}  // namespace
}  // namespace holdfast::worker
