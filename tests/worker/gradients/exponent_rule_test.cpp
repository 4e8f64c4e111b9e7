#include "worker/gradients/exponent_rule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "model/state/train_state.h"

namespace holdfast::worker {
namespace {

float random_magnitude(std::mt19937& random) {
  const double power = std::uniform_real_distribution<double>(-60, 30)(random);
  return static_cast<float>(std::exp2(power) * std::uniform_real_distribution<double>(1, 2)(random));
}

TEST(ExponentRule, ChoosesTheLargestExponentThatFits) {
  std::mt19937 random(7);
  for (int i = 0; i < 20000; ++i) {
    const float largest = random_magnitude(random);
    const int64_t limit = fixed_limit(std::uniform_int_distribution<int64_t>(1, 5000)(random), 32);
    const int headroom = std::uniform_int_distribution<int>(0, 8)(random);
    const int32_t e = choose_exponent(largest, headroom, limit, 0);
    EXPECT_LE(std::ldexp(static_cast<double>(largest), e + headroom), static_cast<double>(limit)) << largest << " seed 7";
    if (e < kExponentMax) {
      EXPECT_GT(std::ldexp(static_cast<double>(largest), e + headroom + 1), static_cast<double>(limit)) << largest << " seed 7";
    }
  }
}

class SumsOfWidth : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Bits, SumsOfWidth, testing::Values(32, 16));

TEST_P(SumsOfWidth, OfWhatWasChosenNeverLeaveTheirIntegers) {
  std::mt19937 random(11);
  for (int i = 0; i < 2000; ++i) {
    const int64_t microbatches = std::uniform_int_distribution<int64_t>(1, 1024)(random);
    const int64_t limit = fixed_limit(microbatches, GetParam());
    const float largest = random_magnitude(random);
    const int32_t e = choose_exponent(largest, 0, limit, 0);
    ASSERT_FALSE(overflows(largest, e, limit));
    // The worst case: every microbatch has the largest magnitude there.
    const int64_t sum = microbatches * std::llrint(std::ldexp(static_cast<double>(largest), e));
    EXPECT_LE(sum, GetParam() == 16 ? INT16_MAX : INT32_MAX) << largest << " x " << microbatches << ", seed 11";
    EXPECT_TRUE(overflows(largest, e + 2, limit) || e + 2 > kExponentMax);
  }
}

// Both parts of the tied embedding, rounded apart: at halves, where rounding adds most, and in between.
TEST_P(SumsOfWidth, OfTwoPartsThatFitTogetherNeverLeaveTheirIntegers) {
  std::mt19937 random(13);
  const int64_t most = GetParam() == 16 ? INT16_MAX : INT32_MAX;
  int64_t largest = 0;
  for (int i = 0; i < 20000; ++i) {
    const int64_t microbatches = std::uniform_int_distribution<int64_t>(1, 1024)(random);
    const int64_t limit = fixed_limit(microbatches, GetParam());
    const int64_t halves = std::uniform_int_distribution<int64_t>(0, std::min<int64_t>(2 * limit, 1 << 20))(random);
    const double shift = i % 2 == 0 ? 0 : std::uniform_real_distribution<double>(0, 0.5)(random);
    const auto head = static_cast<float>(std::min(0.5 * static_cast<double>(halves) + shift, static_cast<double>(limit)));
    const auto encoder = static_cast<float>(std::min<double>(static_cast<double>(limit) - head, 1 << 20));
    const float together = sum_at_least(head, encoder);
    if (overflows(together, 0, limit)) continue;  // a float that is rounded up
    const int64_t sum = std::llrint(head) + std::llrint(encoder);
    ASSERT_LE(microbatches * sum, most) << head << " and " << encoder << ", x " << microbatches << ", seed 13";
    largest = std::max(largest, sum - limit);
  }
  if (GetParam() == 16) {
    EXPECT_EQ(largest, 1) << "the unit that is left for the second rounding is needed: 1.5 and 1.5 become 2 and 2";
  }
}

TEST(ExponentRule, ASumOfMagnitudesIsNeverBelowThem) {
  std::mt19937 random(17);
  for (int i = 0; i < 20000; ++i) {
    const float a = random_magnitude(random), b = random_magnitude(random);
    const float sum = sum_at_least(a, b);
    const long double exactly = static_cast<long double>(a) + b;
    EXPECT_EQ(sum, sum_at_least(b, a));
    ASSERT_GE(sum, exactly) << a << " + " << b << ", seed 17";
    ASSERT_LE(std::nextafter(sum, 0.0F), exactly) << "and no more than that";
  }
  EXPECT_EQ(sum_at_least(0.25F, 0), 0.25F);
  EXPECT_EQ(sum_at_least(0, 0), 0.0F);
  EXPECT_EQ(sum_at_least(1, 0x1p-60F), std::nextafter(1.0F, 2.0F));
  EXPECT_TRUE(std::isinf(sum_at_least(INFINITY, 1)));
  EXPECT_TRUE(std::isinf(sum_at_least(1, INFINITY)));
}

TEST_P(SumsOfWidth, HaveTheHeadroomThatTheNextStepMayGrowBy) {
  const int64_t limit = fixed_limit(8, GetParam());
  const int32_t e = choose_exponent(0.37F, headroom_bits(GetParam()), limit, 0);
  const float growth = GetParam() == 16 ? 4 : 64;
  EXPECT_FALSE(overflows(0.37F * growth, e, limit));
  EXPECT_TRUE(overflows(0.37F * (2 * growth + 1), e, limit));
}

TEST(ExponentRule, LeavesEachOf1024MicrobatchesFiveBitsOfInt16ButForTheSecondRounding) {
  EXPECT_EQ(fixed_limit(1, 16), 32766);
  EXPECT_EQ(fixed_limit(1024, 16), 30);
}

TEST(ExponentRule, AnUnsetExponentFitsNothing) {
  EXPECT_TRUE(overflows(0.0F, model::TrainState::kUnsetExponent, 1));
}

TEST(ExponentRule, ZerosKeepADefinedExponent) {
  EXPECT_EQ(exponent_of_zeros(model::TrainState::kUnsetExponent), 0);
  EXPECT_EQ(exponent_of_zeros(17), 17);
  EXPECT_EQ(choose_exponent(0.0F, 6, fixed_limit(3, 32), 17), 17);
}

TEST(ExponentRule, TinyAndHugeMagnitudesStayWithinTheBounds) {
  EXPECT_EQ(choose_exponent(std::numeric_limits<float>::denorm_min(), 0, fixed_limit(1, 32), 0), kExponentMax);
  const int32_t e = choose_exponent(std::numeric_limits<float>::max(), headroom_bits(32), fixed_limit(4096, 32), 0);
  EXPECT_GE(e, kExponentMin);
  EXPECT_FALSE(overflows(std::numeric_limits<float>::max(), e, fixed_limit(4096, 32)));
}

TEST(ExponentRule, ChoosesAgainOnlyTheTensorsThatOverflowed) {
  const ExponentRule rule(4, 16);
  const std::vector<float> maxima = {1.0F, 0.0F, 1024.0F};
  const auto next = rule.for_next_step(std::vector<int32_t>(3, model::TrainState::kUnsetExponent), maxima);
  EXPECT_TRUE(rule.for_repack(next, maxima).empty()) << "the headroom is there for as much";
  const std::vector<float> grown = {1.0F, 0.0F, 1024.0F * 64};
  const auto again = rule.for_repack(next, grown);
  ASSERT_EQ(again.size(), 3U);
  EXPECT_EQ(again[0], next[0]);
  EXPECT_EQ(again[1], next[1]);
  EXPECT_LT(again[2], next[2]);
  EXPECT_FALSE(rule.overflows(grown[2], again[2]));
  EXPECT_TRUE(rule.overflows(grown[2], again[2] + 1)) << "without headroom";
}

}  // namespace
}  // namespace holdfast::worker
