// The judge against numbers computed by hand or in double. They test constants, scales and masks, which differences do not.
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "kernels/ref/matmul.h"
#include "kernels/ref/optimizer.h"
#include "tests/kernels/act_tensor.h"
#include "tests/kernels/random_inputs.h"

namespace holdfast::kernels {
namespace {

using testing::ActTensor;
using Floats = std::vector<float>;

TEST(RefValues, LayerNormHasMeanZeroAndVarianceOneBeforeItsWeight) {
  auto ops = make_ref_ops(DType::kFloat32);
  const Floats residual = {1, 2, 3, 6};  // mean 3, variance 3.5
  const Floats weight = {1, 1, 2, 1}, bias = {0, 0, 0, 10};
  ActTensor out(DType::kFloat32, 4);
  float mean = 0, rstd = 0;
  ops->layernorm_forward(out.act(), nullptr, &mean, &rstd, residual.data(), nullptr, weight.data(), bias.data(), 1, 4);
  const double s = 1 / std::sqrt(3.5 + 1e-5);
  EXPECT_FLOAT_EQ(mean, 3);
  EXPECT_FLOAT_EQ(rstd, static_cast<float>(s));
  const auto y = out.values();
  EXPECT_NEAR(y[0], -2 * s, 1e-6);
  EXPECT_NEAR(y[2], 0, 1e-6);
  EXPECT_NEAR(y[3], 3 * s + 10, 1e-5);
}

TEST(RefValues, GeluIsTheTanhForm) {
  EXPECT_DOUBLE_EQ(ref::gelu(0.0), 0.0);
  EXPECT_NEAR(ref::gelu(1.0), 0.8411919906082768, 1e-12);
  EXPECT_NEAR(ref::gelu(-1.0), -0.15880800939172324, 1e-12);
}

TEST(RefValues, MatmulTakesTheWeightByOutputRows) {
  auto ops = make_ref_ops(DType::kFloat32);
  const ActTensor in(DType::kFloat32, Floats{1, 2}), weight(DType::kFloat32, Floats{1, 0, 0, 1, 3, 4});
  const Floats bias = {0, 0, 100};
  ActTensor out(DType::kFloat32, 3);
  ops->matmul_forward(out.act(), nullptr, in.act(), weight.act(), bias.data(), Epilogue::kNone, 1, 2, 3);
  EXPECT_EQ(out.values(), (std::vector<double>{1, 2, 111}));
}

TEST(RefValues, AttentionSeesOnlyThePastAndScalesByTheHeadSize) {
  auto ops = make_ref_ops(DType::kFloat32);
  // T=2, C=NH*HS=1*4; rows are q, k, v
  const Floats rows = {1, 0, 0, 0, 2, 0, 0, 0, 10, 20, 30, 40,  //
                       1, 0, 0, 0, 4, 0, 0, 0, 50, 60, 70, 80};
  const ActTensor qkv(DType::kFloat32, rows);
  ActTensor out(DType::kFloat32, 8);
  Floats logsumexp(2);
  ops->attention_forward(out.act(), logsumexp.data(), qkv.act(), 1, 2, 4, 1, {});
  const auto y = out.values();
  EXPECT_EQ(y[0], 10);                        // the first token sees only itself
  EXPECT_FLOAT_EQ(logsumexp[0], 1);           // 2 / sqrt(4)
  const double p = 1 / (1 + std::exp(-1.0));  // scores 1 and 2
  EXPECT_NEAR(y[4], 10 * (1 - p) + 50 * p, 1e-4);
}

TEST(RefValues, AttentionWithDropoutLeavesProbabilitiesOutAndScalesTheOthers) {
  auto ops = make_ref_ops(DType::kFloat32);
  constexpr int64_t T = 64;
  constexpr uint64_t kPass = 5;
  Floats rows;  // all scores are equal; the value of key u is 2^-(u % 20)
  for (int64_t t = 0; t < T; ++t) rows.insert(rows.end(), {0, 0, std::ldexp(1.0F, static_cast<int>(-(t % 20)))});
  const ActTensor qkv(DType::kFloat32, rows);
  ActTensor out(DType::kFloat32, T);
  Floats logsumexp(T);
  const Dropout dropout = dropout_of(0.5).at(attention_site(2));
  ops->set_dropout_pass(kPass);
  ops->attention_forward(out.act(), logsumexp.data(), qkv.act(), 1, T, 1, 1, dropout);
  for (int64_t t = 0; t < T; ++t) {
    double sum = 0;
    for (int64_t u = 0; u <= t; ++u)
      sum += dropout_factor(dropout, dropout_row(kPass, attention_site(2), t), u) * rows[static_cast<size_t>(3 * u + 2)];
    EXPECT_NEAR(out.values()[static_cast<size_t>(t)], sum / static_cast<double>(t + 1), 1e-5) << t;
    EXPECT_NEAR(logsumexp[static_cast<size_t>(t)], std::log(static_cast<double>(t + 1)), 1e-5) << "of all of them";
  }
}

TEST(RefValues, EqualLogitsHaveTheLogarithmOfTheVocabularyAsLoss) {
  auto ops = make_ref_ops(DType::kBFloat16);
  const ActTensor x(DType::kBFloat16, Floats(3 * 4, 1.0f)), wte(DType::kBFloat16, Floats(50 * 4, 0.5f));
  const std::vector<int32_t> targets = {0, 49, 7};
  Floats losses(3);
  ops->head_loss(losses.data(), x.act(), wte.act(), targets.data(), 3, 4, 50);
  for (float loss : losses) EXPECT_NEAR(loss, std::log(50.0), 1e-5);
}

TEST(RefValues, AdamWFollowsItsFormulaInDouble) {
  testing::RandomInputs random;
  SCOPED_TRACE(random.how_to_repeat());
  auto ops = make_ref_ops(DType::kFloat32);
  Floats p = random.normal(100), m(100, 0.0f), v(100, 0.0f);
  std::vector<double> pd(p.begin(), p.end()), md(100), vd(100);
  for (int t = 1; t <= 20; ++t) {
    const Floats g = random.normal(100);
    const std::vector<double> gd(g.begin(), g.end());
    const AdamWStep step{
        1e-2f, 0.9f, 0.95f, 1e-8f, 0.1f, static_cast<float>(1 - std::pow(0.9, t)), static_cast<float>(1 - std::pow(0.95, t)),
        0.5f};
    ops->adamw(p.data(), m.data(), v.data(), g.data(), 100, step);
    ref::adamw(pd.data(), md.data(), vd.data(), gd.data(), 100, step);
  }
  for (size_t i = 0; i < p.size(); ++i) EXPECT_NEAR(p[i], pd[i], 2e-5);
}

TEST(RefValues, FirstAdamWStepMovesByTheLearningRateAgainstTheSign) {
  auto ops = make_ref_ops(DType::kFloat32);
  Floats p = {1, 1}, m = {0, 0}, v = {0, 0};
  const Floats g = {1000, -0.001f};
  ops->adamw(p.data(), m.data(), v.data(), g.data(), 2, {0.1f, 0.9f, 0.95f, 1e-8f, 0.5f, 0.1f, 0.05f, 1.0f});
  EXPECT_NEAR(p[0], 1 - 0.1 * (1 + 0.5), 1e-5);
  EXPECT_NEAR(p[1], 1 - 0.1 * (-1 + 0.5), 1e-4);
}

TEST(RefValues, SumsAreInDouble) {
  auto ops = make_ref_ops(DType::kFloat32);
  const Floats x = {1e8f, 1, -1e8f, 3};
  EXPECT_EQ(ops->sum(x.data(), 4), 4.0);
  EXPECT_EQ(ops->sum_of_squares(x.data(), 4), 2e16 + 10);
}

}  // namespace
}  // namespace holdfast::kernels
