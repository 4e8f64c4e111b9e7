// The times at which the parts of a gradient are finished: a listener that sends a part while the pass goes on must find its
// final bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "tests/model/small_model.h"

namespace holdfast::model {
namespace {

constexpr Gpt2Config kConfig = {.n_layer = 3, .n_embd = 16, .n_head = 2, .vocab_size = 23, .block_size = 8};

TEST(GradientOrder, IsAPartitionOfTheTable) {
  for (const Gpt2Config& config : {kConfig, untied(kConfig)}) {
    const ParameterTable table(config);
    for (std::vector<Elements> ranges : {table.backward_order(), table.backward_parts(0), table.backward_parts(4)}) {
      std::ranges::sort(ranges, {}, &Elements::first);
      int64_t end = 0;
      for (const Elements& range : ranges) {
        EXPECT_EQ(range.first, end);
        EXPECT_GT(range.count, 0);
        end = range.first + range.count;
      }
      EXPECT_EQ(end, table.total);
    }
  }
}

// The encoder's part of the embedding's gradient, (V, C).
std::vector<float> of_the_encoder(SmallModel& model) {
  const TokenGradient rows = model.gpt2.token_gradient();
  const auto C = static_cast<size_t>(kConfig.n_embd);
  const auto values = read_floats(*model.ops, rows.rows, static_cast<int64_t>(rows.ids.size() * C));
  std::vector<float> all(static_cast<size_t>(kConfig.vocab_size) * C);
  for (size_t r = 0; r < rows.ids.size(); ++r)
    std::copy_n(values.data() + r * C, C, all.data() + static_cast<size_t>(rows.ids[r]) * C);
  return all;
}

// Checks that `head` (V, C) and the encoder's part (V, C) sum to `whole`, which has the same terms in another order.
void expect_parts_of(const std::vector<float>& whole, std::span<const float> head, const std::vector<float>& encoder) {
  for (size_t i = 0; i < head.size(); ++i) {
    const float terms = std::fabs(head[i]) + std::fabs(encoder[i]);
    ASSERT_NEAR(head[i] + encoder[i], whole[i], 1e-6 * terms + 1e-7) << i;
  }
}

TEST(GradientOrder, GoesFromTheHeadToTheLastLayerToTheFirstAndEndsWithThePositions) {
  SmallModel model(ref_float32(), 2, kConfig);
  const ParameterTable& table = model.gpt2.table();
  const auto& order = model.gpt2.gradient_order();
  ASSERT_EQ(order.size(), 6U);
  EXPECT_EQ(order[0], (Elements{0, table["wpe.weight"].offset}));
  EXPECT_EQ(order[1].first, table["ln_f.weight"].offset);
  EXPECT_EQ(order[2].first, table["h.2.ln_1.weight"].offset);
  EXPECT_EQ(order[3].first, table["h.1.ln_1.weight"].offset);
  EXPECT_EQ(order[4].first, table["h.0.ln_1.weight"].offset);
  EXPECT_EQ(order[5], (Elements{table["wpe.weight"].offset, table["wpe.weight"].count}));
}

TEST(GradientOrder, WithAHeadOfItsOwnEndsWithTheEmbedding) {
  const ParameterTable table(untied(kConfig));
  EXPECT_EQ(table.entries[table.head].name, "lm_head.weight");
  EXPECT_EQ(table.layer_of(table.head), -1);
  EXPECT_EQ(table.layer_of(table.head - 2), -1) << "ln_f";
  EXPECT_EQ(table.layer_of(table.head - 3), kConfig.n_layer - 1);
  const auto order = table.backward_order();
  ASSERT_EQ(order.size(), 7U);
  EXPECT_EQ(order[0], table.elements_of(table.head));
  EXPECT_EQ(order[1].first, table["ln_f.weight"].offset);
  EXPECT_EQ(order[2].first, table["h.2.ln_1.weight"].offset);
  EXPECT_EQ(order[5], table.elements_of(1));
  EXPECT_EQ(order[6], table.elements_of(0));
}

TEST(GradientOrder, EachRangeHasItsFinalBitsWhenItIsReported) {
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
    EXPECT_EQ(told, model.gpt2.gradient_order());
    EXPECT_EQ(read_floats(*model.ops, model.gpt2.gradients(), model.gpt2.table().total), as_told) << "nothing came after";
    const auto tied = static_cast<size_t>(told[0].count);
    EXPECT_TRUE(std::equal(as_told.begin() + told[0].count, as_told.end(), whole.begin() + told[0].count));
    expect_parts_of(whole, std::span(as_told).first(tied), of_the_encoder(model));
  }
}

TEST(GradientOrder, ReportedRangesMayBeOverwritten) {
  for (const Gpt2Config& config : {kConfig, untied(kConfig)}) {
    SmallModel model(ref_float32(), 2, config);
    perturbed_parameters(model.gpt2, *model.ops, 5);
    const Microbatch microbatch = random_microbatch(config, 2, 3);
    const std::vector<float> whole = model.gradients(microbatch);
    std::vector<float> as_told(whole.size());
    const auto spoil = [&](int64_t first, int64_t count) {
      float* gradients = model.gpt2.gradients() + first;
      std::copy_n(gradients, count, as_told.begin() + first);
      std::fill_n(gradients, count, 1e30F);
    };
    model.gpt2.train_microbatch(microbatch.tokens, microbatch.targets, spoil);
    const int64_t tied = config.ties_head ? model.gpt2.gradient_order()[0].count : 0;
    EXPECT_TRUE(std::equal(as_told.begin() + tied, as_told.end(), whole.begin() + tied))
        << "the pass reads no gradient that it has told of";
    EXPECT_EQ(model.gpt2.token_gradient().ids.empty(), tied == 0);
    expect_parts_of(whole, std::span(as_told).first(static_cast<size_t>(tied)), of_the_encoder(model));
  }
}

// Memory for a range at a time: the embedding comes last, in rows, or first where the op set has it whole.
class GradientsByRange : public testing::TestWithParam<Recompute> {
 protected:
  static constexpr Gpt2Config kWide = {.n_layer = 2, .n_embd = 8, .n_head = 2, .vocab_size = 1300, .block_size = 8};
  const Microbatch microbatch = random_microbatch(kWide, 2, 3);

  // By range as it was told, and the encoder's rows at the end.
  std::vector<float> values(SmallModel& model) {
    perturbed_parameters(model.gpt2, *model.ops, 5);
    model.gpt2.set_loss_scale(4);
    std::vector<float> all(static_cast<size_t>(model.gpt2.table().total));
    const auto keep = [&](int64_t first, int64_t count) {
      for (const TensorPart& part : model.gpt2.table().cut({first, count})) {
        const auto [at, size] = part.elements;
        std::ranges::copy(read_floats(*model.ops, model.gpt2.gradient_at(part.elements), size), all.begin() + at);
      }
      told.push_back({first, count});
      const int64_t tied = kWide.vocab_size * kWide.n_embd;
      if (first >= tied || model.gpt2.gradients() != nullptr) return;
      rows.assign(model.gpt2.token_gradient().ids.begin(), model.gpt2.token_gradient().ids.end());
    };
    told.clear();
    model.gpt2.train_microbatch(microbatch.tokens, microbatch.targets, keep);
    EXPECT_EQ(told, model.gpt2.gradient_order());
    return all;
  }
  std::vector<Elements> told;
  std::vector<int32_t> rows;
};

INSTANTIATE_TEST_SUITE_P(Recomputed, GradientsByRange,
                         testing::Values(Recompute::kNone, Recompute::kAttention, Recompute::kBlock));

TEST_P(GradientsByRange, AreThoseOfAModelThatHasThemWhole) {
  for (const auto& make : {+[] { return ref_float32(); }, +[] { return kernels::make_cpu_ops(kernels::DType::kFloat32, 2); }}) {
    for (const Gpt2Config& config : {kWide, untied(kWide)}) {
      SmallModel whole(make(), 2, config, GetParam());
      SmallModel parts(make(), 2, config, GetParam(), {.gradients = Gradients::kByRange});
      const auto expected = values(whole);
      EXPECT_EQ(expected, values(parts));
      EXPECT_GE(told.size(), 2U + 2U * kWide.n_layer + 3U) << "the embedding is in three ranges or more";
      EXPECT_TRUE(std::ranges::equal(rows, whole.gpt2.token_gradient().ids)) << "rows are there before the embedding";
      EXPECT_LT(parts.gpt2.memory_use().gradients, whole.gpt2.memory_use().gradients / 2);
    }
  }
}

TEST(GradientOrder, TheEncodersPartHasEachTokenOfThePassOnceAndInOrder) {
  SmallModel model(ref_float32(), 2, kConfig);
  perturbed_parameters(model.gpt2, *model.ops, 5);
  const Microbatch microbatch = random_microbatch(kConfig, 2, 3), other = random_microbatch(kConfig, 2, 4);
  const auto part_of = [&](const Microbatch& trained) {
    model.gpt2.train_microbatch(trained.tokens, trained.targets, [](int64_t, int64_t) {});
    return of_the_encoder(model);
  };
  const auto part = part_of(microbatch);
  auto expected = microbatch.tokens;
  std::ranges::sort(expected);
  expected.erase(std::ranges::unique(expected).begin(), expected.end());
  EXPECT_TRUE(std::ranges::equal(model.gpt2.token_gradient().ids, expected));
  EXPECT_LT(expected.size(), microbatch.tokens.size()) << "some come more than once";
  EXPECT_NE(part_of(other), part);
  EXPECT_EQ(part_of(microbatch), part);
  part_of(other);
  model.gpt2.train_microbatch(microbatch.tokens, microbatch.targets, nullptr, TiedGradient::kApart);
  EXPECT_EQ(of_the_encoder(model), part) << "apart, though nobody listens";
  model.gradients(microbatch);
  EXPECT_TRUE(model.gpt2.token_gradient().ids.empty()) << "without a listener the buffer has it all";
}

}  // namespace
}  // namespace holdfast::model
