// Promises of the vector loops beyond their ops: small errors of exp and log, and no number that is not finite gets lost.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "kernels/cpu/isa.h"
#include "kernels/cpu/vector/table.h"
#include "kernels/dtype.h"
#include "tests/kernels/random_inputs.h"

namespace holdfast::kernels::cpu {
namespace {

using Floats = std::vector<float>;

class VectorLoops : public ::testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (GetParam() > best_isa()) GTEST_SKIP() << "this CPU has no " << isa_name(GetParam());
    table_ = GetParam() == Isa::kAvx2 ? &avx2::table() : &avx512::table();
  }
  const VectorTable* table_ = nullptr;
};

INSTANTIATE_TEST_SUITE_P(Isas, VectorLoops, ::testing::Values(Isa::kAvx2, Isa::kAvx512),
                         [](const auto& chosen) { return isa_name(chosen.param); });

TEST_P(VectorLoops, ExponentialIsWithinTwoRoundings) {
  double worst = 0;
  for (int block = 0; block < 870; ++block) {
    Floats x = {0.0f};  // the largest element, which is subtracted from all
    for (int i = 0; i < 1000; ++i) x.push_back(-0.1f * static_cast<float>(block) - 1e-4f * static_cast<float>(i));
    const Floats before = x;
    float sum = 0;
    EXPECT_EQ(table_->floats.exponentiate_row(x.data(), &sum, static_cast<int64_t>(x.size())), 0.0f);
    for (size_t i = 0; i < x.size(); ++i) {
      const double exact = std::exp(static_cast<double>(before[i]));
      worst = std::max(worst, std::fabs(x[i] - exact) / exact);
    }
  }
  EXPECT_LT(worst, 1.2e-7);
}

TEST_P(VectorLoops, ExponentialOfTheVerySmallIsANormalNumber) {
  Floats x = {0.0f, -88.0f, -1e30f, -std::numeric_limits<float>::infinity()};
  float sum = 0;
  table_->floats.exponentiate_row(x.data(), &sum, 4);
  for (size_t i = 1; i < 4; ++i) EXPECT_NEAR(x[i], std::exp(-87.0), 1e-44);
}

TEST_P(VectorLoops, LogarithmOfASumIsGoodToTheLastPlaces) {
  for (int64_t count : {1, 2, 3, 10, 31, 513, 4097, 100003}) {
    Floats x(static_cast<size_t>(count), 0.25f);
    float sum = 0;
    const float logsumexp = table_->floats.softmax_row(x.data(), &sum, 1.0f, count, count);
    EXPECT_NEAR(logsumexp, 0.25 + std::log(static_cast<double>(count)), 1.5e-6) << count;
  }
}

TEST_P(VectorLoops, InvisibleElementsAreZeroInForwardAndBackward) {
  Floats scores(40, 1.0f), dp(40, 2.0f);
  float sum = 0;
  table_->floats.softmax_row(scores.data(), &sum, 1.0f, 19, 33);
  EXPECT_EQ(sum, 19.0f);
  EXPECT_TRUE(std::all_of(scores.begin() + 19, scores.begin() + 33, [](float p) { return p == 0.0f; }));
  EXPECT_EQ(scores[33], 1.0f) << "beyond the row nothing is touched";
  Floats p(40, 1.0f);
  table_->floats.softmax_backward_row(p.data(), dp.data(), 1.0f, 1.0f, 0.5f, 19, 33);
  EXPECT_EQ(dp[18], 1.5f);
  EXPECT_TRUE(std::all_of(dp.begin() + 19, dp.begin() + 33, [](float d) { return d == 0.0f; }));
  EXPECT_EQ(dp[33], 2.0f);
}

TEST_P(VectorLoops, ANanAmongLogitsReachesTheLoss) {
  for (size_t where : {0u, 5u, 15u, 16u, 36u}) {
    for (float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      Floats x(37, 1.0f);
      x[where] = bad;
      float largest, sum = 0;
      largest = table_->floats.exponentiate_row(x.data(), &sum, 37);
      EXPECT_TRUE(std::isnan(table_->floats.join_pieces(&largest, &sum, 1, 1.0f, 1.0f))) << bad << " at " << where;
    }
  }
}

TEST_P(VectorLoops, RoundingToBfloat16IsThatOfTheElementType) {
  testing::RandomInputs random;
  SCOPED_TRACE(random.how_to_repeat());
  Floats x = random.normal(1003, 100.0f);
  x[0] = std::numeric_limits<float>::quiet_NaN();
  x[1] = -std::numeric_limits<float>::infinity();
  x[2] = std::numeric_limits<float>::max();
  x[3] = 1e-41f;
  x[4] = 0x1.01p0f;  // halfway: rounds to even
  x[5] = 0x1.03p0f;
  std::vector<BFloat16> y(1003);
  table_->bfloat16.from_float(y.data(), x.data(), 1003);
  for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(y[i].bits, BFloat16(x[i]).bits) << x[i];
}

TEST_P(VectorLoops, RoundingToFloat16IsThatOfTheElementType) {
  testing::RandomInputs random;
  SCOPED_TRACE(random.how_to_repeat());
  Floats x = random.normal(1003, 100.0f);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const Floats ends = {std::numeric_limits<float>::quiet_NaN(), -kInfinity, 65504.0f, 65519.0f, 65520.0f, -1e30f};
  const Floats halfway = {0x1.002p0f, 0x1.006p0f, 0x1p-25f, 0x1.8p-24f,
                          0x1.01p-25f};                                    // halfway: round to even; the last is above halfway
  const Floats small = {0x1p-14f, 0x1.ffcp-15f, 0x1p-24f, 1e-41f, -0.0f};  // from the smallest normal number down
  auto next = x.begin();
  for (const Floats* special : {&ends, &halfway, &small}) next = std::copy(special->begin(), special->end(), next);
  for (size_t i = 500; i < x.size(); ++i) x[i] *= 1e-7f;
  std::vector<Float16> y(1003);
  table_->float16.from_float(y.data(), x.data(), 1003);
  for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(y[i].bits, Float16(x[i]).bits) << x[i];
}

TEST_P(VectorLoops, EveryFloat16IsWidenedExactly) {
  std::vector<Float16> x(1 << 16);
  for (size_t i = 0; i < x.size(); ++i) x[i].bits = static_cast<uint16_t>(i);
  Floats y(x.size() - 3);  // the last vector is incomplete
  table_->float16.to_float(y.data(), x.data(), static_cast<int64_t>(y.size()));
  for (size_t i = 0; i < y.size(); ++i) {
    const float exact = x[i];
    if (std::isnan(exact)) {
      EXPECT_TRUE(std::isnan(y[i])) << i;
    } else {
      EXPECT_EQ(std::bit_cast<uint32_t>(y[i]), std::bit_cast<uint32_t>(exact)) << i;
    }
  }
}

}  // namespace
}  // namespace holdfast::kernels::cpu
