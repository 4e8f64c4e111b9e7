// The whole model's gradient against central finite differences of its loss, with the reference ops in float32.
//
// The difference quotient (L(p + h) - L(p - h)) / 2h has two errors. The first is the rounding of L: each row's loss of about 4
// is rounded to 2^-22, and the float32 forward pass changes it by some 1e-6, so the error is 1e-6 / 2h. The second is the cubic
// term, about h^2 / 6 times the third derivative. h = 2e-2 balances them for single elements: both are below 1e-4.
#include <gtest/gtest.h>

#include <cmath>
#include <span>

#include "tests/model/small_model.h"

namespace holdfast::model {
namespace {

constexpr uint64_t kSeed = 20261120;

class Gpt2GradientTest : public ::testing::Test {
 protected:
  explicit Gpt2GradientTest(const Gpt2Config& config = kSmallConfig) : model_(ref_float32(), 2, config) {}
  double loss_with(const std::vector<float>& parameters) {
    write_parameters(model_.gpt2, *model_.ops, parameters);
    return drops_ ? model_.gpt2.train_microbatch(microbatch_.tokens, microbatch_.targets)
                  : model_.gpt2.evaluate_microbatch(microbatch_.tokens, microbatch_.targets);
  }
  void expect_its_norm_is_the_slope_along_it();
  // The slope of the loss along `direction`, which begins at element `offset`, from the losses at distance h on both sides.
  double slope(int64_t offset, const std::vector<double>& direction, double h) {
    double losses[2];
    for (const int side : {0, 1}) {
      std::vector<float> moved = parameters_;
      for (size_t i = 0; i < direction.size(); ++i) {
        moved[static_cast<size_t>(offset) + i] += static_cast<float>((side == 0 ? -h : h) * direction[i]);
      }
      losses[side] = loss_with(moved);
    }
    return (losses[1] - losses[0]) / (2 * h);
  }

  SmallModel model_;
  Microbatch microbatch_ = random_microbatch(kSmallConfig, 2, kSeed);
  std::vector<float> parameters_ = perturbed_parameters(model_.gpt2, *model_.ops, kSeed);
  std::vector<float> gradient_ = model_.gradients(microbatch_);
  bool drops_ = false;
};

TEST_F(Gpt2GradientTest, AgreesWithDifferencesInElementsOfEveryTensor) {
  for (const Parameter& parameter : model_.gpt2.table().entries) {
    for (int draw = 0; draw < 6; ++draw) {
      const double u = uniform_at(kSeed, 99, static_cast<uint64_t>(parameter.offset + draw));
      const int64_t at = parameter.offset + static_cast<int64_t>(u * static_cast<double>(parameter.count));
      const double expected = slope(at, {1.0}, 2e-2);
      EXPECT_NEAR(gradient_[static_cast<size_t>(at)], expected, 2e-4 + 0.01 * std::abs(expected))
          << parameter.name << " element " << at - parameter.offset << ", seed " << kSeed;
    }
  }
}

void Gpt2GradientTest::expect_its_norm_is_the_slope_along_it() {
  // Along the tensor's own gradient the slope is the gradient's norm. Every element counts, and the norm is much larger than
  // the rounding, so the bound can be tight.
  for (const Parameter& parameter : model_.gpt2.table().entries) {
    std::vector<double> direction(gradient_.begin() + parameter.offset, gradient_.begin() + parameter.offset + parameter.count);
    double norm = 0;
    for (const double element : direction) norm += element * element;
    norm = std::sqrt(norm);
    ASSERT_GT(norm, 1e-3) << parameter.name;
    for (double& element : direction) element /= norm;
    EXPECT_NEAR(slope(parameter.offset, direction, 1e-2) / norm, 1.0, 5e-3) << parameter.name;
  }
}

TEST_F(Gpt2GradientTest, ItsNormIsTheSlopeAlongItInEveryTensor) {
  expect_its_norm_is_the_slope_along_it();
}

TEST_F(Gpt2GradientTest, ItIsWithDropoutToo) {
  model_.gpt2.set_recipe({.dropout = 0.25, .seed = 3});
  drops_ = true;
  gradient_ = model_.gradients(microbatch_);
  expect_its_norm_is_the_slope_along_it();
}

class GradientOfAnUntiedGpt2 : public Gpt2GradientTest {
 protected:
  GradientOfAnUntiedGpt2() : Gpt2GradientTest(untied(kSmallConfig)) {}
};

TEST_F(GradientOfAnUntiedGpt2, ItsNormIsTheSlopeAlongItInEveryTensor) {
  expect_its_norm_is_the_slope_along_it();
}

TEST_F(GradientOfAnUntiedGpt2, OfTheEmbeddingIsZeroForTokensThatAreNotThere) {
  microbatch_.tokens.assign(microbatch_.tokens.size(), 5);
  gradient_ = (write_parameters(model_.gpt2, *model_.ops, parameters_), model_.gradients(microbatch_));
  const auto embedding = std::span(gradient_).first(static_cast<size_t>(kSmallConfig.vocab_size * kSmallConfig.n_embd));
  const auto C = static_cast<size_t>(kSmallConfig.n_embd);
  for (size_t i = 0; i < embedding.size(); ++i) EXPECT_EQ(embedding[i] != 0, i / C == 5) << i;
}

TEST_F(Gpt2GradientTest, OfTheTiedMatrixIsTheSumOfTheHeadsAndTheEncodersGradients) {
  // Row 5 is an input and never a target, row 6 is a target and never an input, row 7 is neither. All are in every softmax.
  microbatch_.tokens.assign(microbatch_.tokens.size(), 5);
  microbatch_.targets.assign(microbatch_.targets.size(), 6);
  gradient_ = (write_parameters(model_.gpt2, *model_.ops, parameters_), model_.gradients(microbatch_));
  const int64_t C = kSmallConfig.n_embd;
  for (const int64_t row : {5, 6, 7}) {
    const int64_t offset = model_.gpt2.table()["wte.weight"].offset + row * C;
    std::vector<double> direction(gradient_.begin() + offset, gradient_.begin() + offset + C);
    double norm = 0;
    for (const double element : direction) norm += element * element;
    norm = std::sqrt(norm);
    for (double& element : direction) element /= norm;
    EXPECT_NEAR(slope(offset, direction, 1e-2), norm, 1e-4 + 0.01 * norm) << "row " << row;
  }
}

}  // namespace
}  // namespace holdfast::model
