// Element types: conversions are exact both ways, and round to the nearest, ties to even.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/dtype.h"

namespace holdfast::kernels {
namespace {

template <typename Element>
Element from_bits(int bits) {
  Element element;
  element.bits = static_cast<uint16_t>(bits);
  return element;
}

template <typename Element>
class SixteenBits : public ::testing::Test {};
using SixteenBitTypes = ::testing::Types<BFloat16, Float16>;
TYPED_TEST_SUITE(SixteenBits, SixteenBitTypes);

TYPED_TEST(SixteenBits, EveryValueSurvivesTheWayThroughFloat) {
  for (int bits = 0; bits < 65536; ++bits) {
    const float value = from_bits<TypeParam>(bits);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(static_cast<float>(TypeParam(value))));
    } else {
      EXPECT_EQ(TypeParam(value).bits, bits) << value;
    }
  }
}

TYPED_TEST(SixteenBits, BetweenTwoNeighboursTheNearerIsTakenAndTheEvenOneInTheMiddle) {
  for (int bits = 0; bits + 1 < 65536; ++bits) {
    const float below = from_bits<TypeParam>(bits), above = from_bits<TypeParam>(bits + 1);
    if (!std::isfinite(below) || !std::isfinite(above) || below == above) continue;
    const float middle = (below / 2) + (above / 2);
    if (static_cast<double>(middle) * 2 != static_cast<double>(below) + above) continue;  // at the smallest subnormals
    EXPECT_EQ(TypeParam(middle).bits, bits % 2 == 0 ? bits : bits + 1) << middle;
    EXPECT_EQ(TypeParam(std::nextafterf(middle, below)).bits, bits) << middle;
    EXPECT_EQ(TypeParam(std::nextafterf(middle, above)).bits, bits + 1) << middle;
  }
}

TEST(DType, TooLargeBecomesInfinity) {
  EXPECT_EQ(static_cast<float>(Float16(65519.0f)), 65504.0f);
  EXPECT_TRUE(std::isinf(static_cast<float>(Float16(65520.0f))));
  EXPECT_EQ(static_cast<float>(Float16(-1e30f)), -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isinf(static_cast<float>(BFloat16(std::numeric_limits<float>::max()))));
}

TEST(DType, NamesAndSizes) {
  EXPECT_STREQ(dtype_name(DType::kFloat32), "float32");
  EXPECT_STREQ(dtype_name(DType::kBFloat16), "bfloat16");
  EXPECT_STREQ(dtype_name(DType::kFloat16), "float16");
  EXPECT_EQ(dtype_size(DType::kFloat32), 4u);
  EXPECT_EQ(dtype_size(DType::kBFloat16), 2u);
}

}  // namespace
}  // namespace holdfast::kernels
