// When a gradient is finished: whoever sends it while the pass goes on must find its last bits.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/model/small_model.h"

namespace holdfast::model {
namespace {

constexpr Gpt2Config kConfig = {.n_layer = 3, .n_embd = 16, .n_head = 2, .vocab_size = 23, .block_size = 8};

TEST(GradientOrder, IsAPartitionOfTheTable) {
  SmallModel model(ref_float32(), 2, kConfig);
  auto ranges = model.gpt2.gradient_order();
  std::ranges::sort(ranges, {}, &Elements::first);
  int64_t end = 0;
  for (const Elements& range : ranges) {
    EXPECT_EQ(range.first, end);
    EXPECT_GT(range.count, 0);
    end = range.first + range.count;
  }
  EXPECT_EQ(end, model.gpt2.table().total);
}

TEST(GradientOrder, GoesFromTheLastLayerToTheFirstAndEndsWithTheEmbeddings) {
  SmallModel model(ref_float32(), 2, kConfig);
  const ParameterTable& table = model.gpt2.table();
  const auto& order = model.gpt2.gradient_order();
  ASSERT_EQ(order.size(), 5U);
  EXPECT_EQ(order[0].first, table["ln_f.weight"].offset);
  EXPECT_EQ(order[1].first, table["h.2.ln_1.weight"].offset);
  EXPECT_EQ(order[2].first, table["h.1.ln_1.weight"].offset);
  EXPECT_EQ(order[3].first, table["h.0.ln_1.weight"].offset);
  EXPECT_EQ(order[4], (Elements{0, table["h.0.ln_1.weight"].offset}));
}

TEST(GradientOrder, EachRangeHasItsFinalBitsWhenItIsTold) {
  for (const Recompute recompute : {Recompute::kNone, Recompute::kBlock}) {
    SmallModel model(ref_float32(), 2, kConfig, recompute);
    perturbed_parameters(model.gpt2, *model.ops, 5);
    const Microbatch microbatch = random_microbatch(kConfig, 2, 3);
    const std::vector<float> whole = model.gradients(microbatch);
    model.gradients(random_microbatch(kConfig, 2, 4));  // so that the buffer holds other values

    std::vector<Elements> told;
    std::vector<float> as_told(whole.size());
    const auto keep = [&](int64_t first, int64_t count) {
      told.push_back({first, count});
      const auto values = read_floats(*model.ops, model.gpt2.gradients() + first, count);
      std::ranges::copy(values, as_told.begin() + first);
    };
    model.gpt2.train_microbatch(microbatch.tokens, microbatch.targets, keep);
    EXPECT_EQ(as_told, whole);
    EXPECT_EQ(told, model.gpt2.gradient_order());
  }
}

TEST(GradientOrder, ToldRangesMayBeWrittenOver) {
  SmallModel model(ref_float32(), 2, kConfig);
  perturbed_parameters(model.gpt2, *model.ops, 5);
  const Microbatch microbatch = random_microbatch(kConfig, 2, 3);
  const std::vector<float> whole = model.gradients(microbatch);
  std::vector<float> as_told(whole.size());
  const auto spoil = [&](int64_t first, int64_t count) {
    float* gradients = model.gpt2.gradients() + first;
    std::copy_n(gradients, count, as_told.begin() + first);
    std::fill_n(gradients, count, 1e30F);
  };
  model.gpt2.train_microbatch(microbatch.tokens, microbatch.targets, spoil);
  EXPECT_EQ(as_told, whole) << "the pass reads no gradient that it has told of";
}

}  // namespace
}  // namespace holdfast::model
