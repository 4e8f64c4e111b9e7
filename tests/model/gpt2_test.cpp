// The model as its users see it: configuration, parameter table, passes, interruption, memory. gpt2_gradient_test.cpp tests its
// gradients.
#include "model/gpt2.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "tests/model/small_model.h"

namespace holdfast::model {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Gpt2Config, NamesEverythingThatIsWrong) {
  EXPECT_TRUE(kSmallConfig.problems().empty());
  const Gpt2Config wrong = {.n_layer = 0, .n_embd = 10, .n_head = 3, .vocab_size = 70'000, .block_size = -1};
  EXPECT_THAT(wrong.problems(),
              ElementsAre(HasSubstr("n_layer: 0"), HasSubstr("vocab_size: 70000"), HasSubstr("block_size: -1"),
                          AllOf(HasSubstr("n_head: 3"), HasSubstr("does not divide n_embd 10"))));
}

TEST(Gpt2Config, WithErrorsIsNotBuilt) {
  const auto ops = ref_float32();
  EXPECT_THROW(Gpt2(Gpt2Config{}, *ops, 1), std::invalid_argument);
}

TEST(ParameterTable, OfTinyHasTheKnownNumberOfParameters) {
  const ParameterTable table({.n_layer = 6, .n_embd = 384, .n_head = 6, .vocab_size = 50257, .block_size = 512});
  EXPECT_EQ(table.total, 30'142'848);
  EXPECT_EQ(table.entries.size(), 2U + 6 * 12 + 2);
}

TEST(ParameterTable, HasNoGapsAndDecaysMatricesOnly) {
  const ParameterTable table(kSmallConfig);
  int64_t offset = 0;
  for (const Parameter& parameter : table.entries) {
    EXPECT_EQ(parameter.offset, offset) << parameter.name;
    EXPECT_EQ(parameter.count,
              std::accumulate(parameter.shape.begin(), parameter.shape.end(), int64_t{1}, std::multiplies<>()));
    EXPECT_EQ(parameter.decay, parameter.shape.size() == 2) << parameter.name;
    offset += parameter.count;
  }
  EXPECT_EQ(table.total, offset);
  EXPECT_EQ(table["h.1.mlp.c_proj.weight"].shape, (std::vector<int64_t>{16, 64}));
}

TEST(Gpt2, ANewModelHasTheLogarithmOfItsVocabularyAsLoss) {
  SmallModel model(ref_float32());
  model.gpt2.initialize(1);
  const Microbatch microbatch = random_microbatch(kSmallConfig, 2, 3);
  EXPECT_NEAR(model.gpt2.evaluate_microbatch(microbatch.tokens, microbatch.targets), std::log(23.0), 0.05);
}

TEST(Gpt2, EvaluationGivesTheLossOfTrainingAndLeavesTheGradients) {
  SmallModel model(ref_float32());
  perturbed_parameters(model.gpt2, *model.ops, 5);
  const Microbatch one = random_microbatch(kSmallConfig, 2, 3), other = random_microbatch(kSmallConfig, 2, 4);
  const double loss = model.gpt2.train_microbatch(one.tokens, one.targets);
  const std::vector<float> gradients = read_floats(*model.ops, model.gpt2.gradients(), model.gpt2.table().total);
  EXPECT_EQ(model.gpt2.evaluate_microbatch(one.tokens, one.targets), loss);
  EXPECT_NE(model.gpt2.evaluate_microbatch(other.tokens, other.targets), loss);
  EXPECT_EQ(read_floats(*model.ops, model.gpt2.gradients(), model.gpt2.table().total), gradients);
}

TEST(Gpt2, DropoutIsOfTrainingAloneAndOfAMicrobatchsPlace) {
  SmallModel model(ref_float32());
  perturbed_parameters(model.gpt2, *model.ops, 5);
  const Microbatch one = random_microbatch(kSmallConfig, 2, 3);
  const auto loss = [&](MicrobatchPlace place) {
    return model.gpt2.train_microbatch(one.tokens, one.targets, nullptr, TiedGradient::kTogether, place);
  };
  const double plain = loss({});
  model.gpt2.set_recipe({.dropout = 0.3, .seed = 7});
  const double dropped = loss({4, 2});
  EXPECT_NE(dropped, plain);
  EXPECT_EQ(model.gpt2.evaluate_microbatch(one.tokens, one.targets), plain);
  EXPECT_NE(loss({4, 3}), dropped);
  EXPECT_NE(loss({5, 2}), dropped);
  EXPECT_EQ(loss({4, 2}), dropped);
  model.gpt2.set_recipe({.dropout = 0.3, .seed = 8});
  EXPECT_NE(loss({4, 2}), dropped);
  model.gpt2.set_recipe({.dropout = 0, .seed = 8});
  EXPECT_EQ(loss({4, 2}), plain);
}

TEST(Gpt2, WithoutBiasesTheirGradientsAloneAreZero) {
  const Microbatch one = random_microbatch(kSmallConfig, 2, 3);
  SmallModel all(ref_float32()), without(ref_float32());
  perturbed_parameters(all.gpt2, *all.ops, 5);
  perturbed_parameters(without.gpt2, *without.ops, 5);
  without.gpt2.set_recipe({.trains_biases = false});
  const auto theirs = all.gradients(one), ours = without.gradients(one);
  int64_t told = 0;
  without.gpt2.train_microbatch(one.tokens, one.targets, [&](int64_t first, int64_t count) {
    for (const TensorPart& part : without.gpt2.table().cut({first, count})) {
      const auto& tensor = without.gpt2.table().entries[part.tensor];
      if (!tensor.is_bias()) continue;
      ++told;
      const auto gradient = read_floats(*without.ops, without.gpt2.gradient_at(part.elements), part.elements.count);
      EXPECT_EQ(gradient, std::vector<float>(gradient.size())) << tensor.name;
    }
  });
  EXPECT_EQ(told, 6 * kSmallConfig.n_layer + 1) << "cleared before anybody is told";
  for (const Parameter& parameter : all.gpt2.table().entries) {
    const auto first = parameter.offset, end = first + parameter.count;
    for (auto i = static_cast<size_t>(first); i < static_cast<size_t>(end); ++i)
      ASSERT_EQ(ours[i], parameter.is_bias() ? 0.0F : theirs[i]) << parameter.name;
  }
}

TEST(Gpt2, BiasesThatAreNotZeroAreNamed) {
  class Ones final : public InitialValues {
    tl::expected<void, std::string> fill(size_t tensor, std::span<float> values) const override {
      std::ranges::fill(values, tensor == 5 ? 1.0F : 0.0F);
      return {};
    }
  };
  const ParameterTable table(kSmallConfig);
  EXPECT_TRUE(expect_no_biases(SeededValues(kSmallConfig, 1), table));
  EXPECT_THAT(expect_no_biases(Ones(), table).error(), HasSubstr("h.0.attn.c_attn.bias is not 0 there"));
}

TEST(Gpt2, AGradientDoesNotDependOnWhatWasComputedBefore) {
  SmallModel used(ref_float32()), fresh(ref_float32());
  perturbed_parameters(used.gpt2, *used.ops, 5);
  perturbed_parameters(fresh.gpt2, *fresh.ops, 5);
  const Microbatch one = random_microbatch(kSmallConfig, 2, 3), other = random_microbatch(kSmallConfig, 2, 4);
  used.gradients(other);
  EXPECT_EQ(used.gradients(one), fresh.gradients(one));
}

TEST(Gpt2, ABatchIsTheMeanOfItsSequences) {
  SmallModel pair(ref_float32(), 2), single(ref_float32(), 1);
  perturbed_parameters(pair.gpt2, *pair.ops, 5);
  perturbed_parameters(single.gpt2, *single.ops, 5);
  const Microbatch both = random_microbatch(kSmallConfig, 2, 3);
  const int64_t T = kSmallConfig.block_size;
  const std::vector<float> together = pair.gradients(both);
  const std::vector<float> first =
      single.gradients({{both.tokens.begin(), both.tokens.begin() + T}, {both.targets.begin(), both.targets.begin() + T}});
  const std::vector<float> second =
      single.gradients({{both.tokens.begin() + T, both.tokens.end()}, {both.targets.begin() + T, both.targets.end()}});
  for (size_t i = 0; i < together.size(); ++i) EXPECT_NEAR(together[i], (first[i] + second[i]) / 2, 1e-6);
}

TEST(Gpt2, AnInterruptedPassThrowsAndTheNextOneIsWhole) {
  SmallModel model(ref_float32());
  const std::vector<float> parameters = perturbed_parameters(model.gpt2, *model.ops, 5);
  const Microbatch microbatch = random_microbatch(kSmallConfig, 2, 3);
  const std::vector<float> gradients = model.gradients(microbatch);
  std::atomic<bool> interrupt{true};
  model.gpt2.set_interrupt(&interrupt);
  EXPECT_THROW(model.gpt2.train_microbatch(microbatch.tokens, microbatch.targets), Interrupted);
  EXPECT_THROW(model.gpt2.evaluate_microbatch(microbatch.tokens, microbatch.targets), Interrupted);
  EXPECT_EQ(read_floats(*model.ops, model.gpt2.parameters(), model.gpt2.table().total), parameters);
  interrupt = false;
  EXPECT_EQ(model.gradients(microbatch), gradients);
}

TEST(Gpt2, RefusesAMicrobatchOfAnotherShape) {
  SmallModel model(ref_float32());
  const std::vector<int32_t> few(7);
  EXPECT_THROW(model.gpt2.train_microbatch(few, few), std::invalid_argument);
}

TEST(Gpt2, SaysWhatMemoryItUses) {
  SmallModel model(ref_float32());
  const auto use = model.gpt2.memory_use();
  const size_t parameter_bytes = static_cast<size_t>(model.gpt2.table().total) * 4;
  EXPECT_EQ(use.parameters, parameter_bytes);
  EXPECT_EQ(use.gradients, parameter_bytes);
  EXPECT_EQ(use.cast_parameters, 0U);
  // The formula of model/activations.h. These sizes are multiples of the alignment, except for the logits and statistics.
  const size_t N = 16, C = 16, L = 2, NH = 2;
  const size_t ids = 8 * N + 256;  // tokens and targets; 3 N + 1 numbers of the runs, rounded up to the alignment
  EXPECT_EQ(use.activations, L * (56 * N * C + 4 * N * NH) + (8 + 7 * 4) * N * C + 12 * N + ids);
}

}  // namespace
}  // namespace holdfast::model
