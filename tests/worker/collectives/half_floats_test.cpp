// The 16-bit floats: every value of them, and every way in which a float can round to one.
#include "worker/collectives/half_floats.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace holdfast::worker {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

bool is_nan(Float16 half) {
  return (half.bits & 0x7fff) > 0x7c00;
}

bool is_nan(BFloat16 half) {
  return (half.bits & 0x7fff) > 0x7f80;
}

Float16 to_half(float value, Float16) {
  return to_float16(value);
}

BFloat16 to_half(float value, BFloat16) {
  return to_bfloat16(value);
}

template <typename Half>
class HalfFloats : public testing::Test {
 protected:
  static Half half(uint32_t bits) { return {static_cast<uint16_t>(bits)}; }
  static uint16_t rounded(double value) { return to_half(static_cast<float>(value), Half{}).bits; }
};

using Types = testing::Types<Float16, BFloat16>;
TYPED_TEST_SUITE(HalfFloats, Types);

TYPED_TEST(HalfFloats, EveryOneComesBackFromFloatAsItWas) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = this->half(bits);
    if (is_nan(half)) continue;
    ASSERT_EQ(to_half(to_float(half), half).bits, bits);
  }
}

TYPED_TEST(HalfFloats, WhatLiesBetweenTwoGoesToTheNearerAndTiesToTheEvenOne) {
  for (uint32_t bits = 0; bits < 0x7fff; ++bits) {
    const auto low = this->half(bits), high = this->half(bits + 1);
    if (!std::isfinite(to_float(high))) break;
    const double middle = (static_cast<double>(to_float(low)) + static_cast<double>(to_float(high))) / 2;
    const float exact = static_cast<float>(middle);
    ASSERT_EQ(static_cast<double>(exact), middle) << "a float has the bits for it";
    const uint16_t even = (bits & 1) == 0 ? low.bits : high.bits;
    ASSERT_EQ(this->rounded(exact), even) << bits;
    ASSERT_EQ(this->rounded(-exact), even | 0x8000) << bits;
    ASSERT_EQ(this->rounded(std::nextafter(exact, 0.0F)), low.bits) << bits;
    ASSERT_EQ(this->rounded(std::nextafter(exact, kInfinity)), high.bits) << bits;
  }
}

TYPED_TEST(HalfFloats, ANanStaysAQuietOneWithItsSign) {
  for (const uint32_t word : {0x7f800001u, 0x7fc00000u, 0x7fffffffu, 0xff800001u, 0xffc01234u}) {
    const auto half = to_half(std::bit_cast<float>(word), TypeParam{});
    EXPECT_TRUE(is_nan(half)) << std::hex << word;
    EXPECT_EQ(half.bits >> 15, word >> 31);
    const auto back = std::bit_cast<uint32_t>(to_float(half));
    EXPECT_TRUE(std::isnan(std::bit_cast<float>(back)));
    EXPECT_NE(back & 0x400000u, 0u) << "quiet";
  }
}

TYPED_TEST(HalfFloats, ArraysAreConvertedAsEachElementIs) {
  std::vector<float> values;
  for (uint32_t i = 0; i < 100003; ++i) values.push_back(std::bit_cast<float>(i * 42949u + (i & 1u) * 0x80000000u));
  std::vector<TypeParam> halves(values.size());
  narrow(values, halves);
  std::vector<float> back(values.size());
  widen(halves, back);
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(halves[i].bits, to_half(values[i], TypeParam{}).bits) << values[i];
    ASSERT_EQ(std::bit_cast<uint32_t>(back[i]), std::bit_cast<uint32_t>(to_float(halves[i]))) << values[i];
  }
}

TEST(Float16, IsInfiniteFrom65520On) {
  EXPECT_EQ(to_float16(65504.0F).bits, 0x7bff);
  EXPECT_EQ(to_float16(std::nextafter(65520.0F, 0.0F)).bits, 0x7bff);
  EXPECT_EQ(to_float16(65520.0F).bits, 0x7c00);
  EXPECT_EQ(to_float16(-1e30F).bits, 0xfc00);
  EXPECT_EQ(to_float16(-kInfinity).bits, 0xfc00);
  EXPECT_EQ(to_float(Float16{0x7c00}), kInfinity);
}

TEST(Float16, HasSubnormalNumbersDownTo2ToTheMinus24) {
  EXPECT_EQ(to_float(Float16{1}), 0x1p-24F);
  EXPECT_EQ(to_float16(0x1p-25F).bits, 0);
  EXPECT_EQ(to_float16(0x1.000002p-25F).bits, 1);
  EXPECT_EQ(to_float16(-0x1p-149F).bits, 0x8000);
}

TEST(BFloat16, IsTheUpperHalfOfAFloat) {
  EXPECT_EQ(to_bfloat16(1.0F).bits, 0x3f80);
  EXPECT_EQ(to_bfloat16(std::numeric_limits<float>::max()).bits, 0x7f80) << "rounds up to infinity";
  EXPECT_EQ(to_bfloat16(0x1p-133F).bits, 1) << "subnormal numbers are kept";
}

}  // namespace
}  // namespace holdfast::worker
