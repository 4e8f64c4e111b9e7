// Fixed point, exactly, on ref and cpu: rounding, exponents that a float cannot hold, and values that are not finite. ctest
// runs this program once for each instruction set (HOLDFAST_TEST_ISA).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/ops.h"

namespace holdfast::kernels {
namespace {

using Floats = std::vector<float>;
using Ints = std::vector<int32_t>;
using Shorts = std::vector<int16_t>;
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class FixedPoint : public ::testing::TestWithParam<const char*> {
 protected:
  std::unique_ptr<DeviceOps> ops_ =
      GetParam() == std::string("ref") ? make_ref_ops(DType::kFloat32) : make_cpu_ops(DType::kFloat32, 2);

  Ints rounded(const Floats& x, int exponent) {
    Ints sums(x.size(), 77);
    ops_->fixed_accumulate(sums.data(), x.data(), static_cast<int64_t>(x.size()), exponent, true);
    return sums;
  }
  Shorts rounded_short(const Floats& x, int exponent) {
    Shorts sums(x.size(), 77);
    ops_->fixed_accumulate(sums.data(), x.data(), static_cast<int64_t>(x.size()), exponent, true);
    return sums;
  }
};

INSTANTIATE_TEST_SUITE_P(OpSets, FixedPoint, ::testing::Values("ref", "cpu"), [](const auto& chosen) { return chosen.param; });

TEST_P(FixedPoint, RoundsToNearestAndTiesToEven) {
  EXPECT_EQ(rounded({0.5f, 1.5f, 2.5f, -0.5f, -1.5f, -2.5f, 0.49999997f, 0.50000006f, -0.0f}, 0),
            (Ints{0, 2, 2, 0, -2, -2, 0, 1, 0}));
  EXPECT_EQ(rounded({3.0f, 5.0f, 7.0f, -3.0f, -5.0f}, -1), (Ints{2, 2, 4, -2, -2}));
  EXPECT_EQ(rounded({0.375f, 0.625f, -0.375f, 0.4f}, 2), (Ints{2, 2, -2, 2}));
}

TEST_P(FixedPoint, TakesExponentsThatNoFloatHolds) {
  const float smallest = std::numeric_limits<float>::denorm_min();  // 2^-149
  EXPECT_EQ(rounded({smallest, -smallest, 3 * smallest}, 149), (Ints{1, -1, 3}));
  EXPECT_EQ(rounded({smallest, 0x1p-126f}, 148), (Ints{0, 1 << 22}));
  EXPECT_EQ(rounded({0x1p127f, -0x1.8p127f, 0x1p127f}, -126), (Ints{2, -3, 2}));
  EXPECT_EQ(rounded({0x1p127f, 0x1.8p127f, 0x1.000002p127f}, -128), (Ints{0, 1, 1}));
  EXPECT_EQ(rounded({0x1p127f, -0x1p127f}, -400), (Ints{0, 0}));
  EXPECT_EQ(rounded({0.0f, -0.0f}, 400), (Ints{0, 0}));
}

TEST_P(FixedPoint, AddsOnlyWhenItIsNotTheFirst) {
  Ints sums = {5, -5};
  const Floats x = {2, 3};
  ops_->fixed_accumulate(sums.data(), x.data(), 2, 1, false);
  EXPECT_EQ(sums, (Ints{9, 1}));
  ops_->fixed_accumulate(sums.data(), x.data(), 2, 1, true);
  EXPECT_EQ(sums, (Ints{4, 6}));
}

TEST_P(FixedPoint, ReachesTheEndsOfInt32) {
  EXPECT_EQ(rounded({-2147483648.0f, 2147483520.0f}, 0), (Ints{std::numeric_limits<int32_t>::min(), 2147483520}));
}

TEST_P(FixedPoint, Int16SumsRoundAlikeAndReachTheEndsOfInt16) {
  EXPECT_EQ(rounded_short({0.5f, 1.5f, 2.5f, -0.5f, -1.5f, -2.5f, 0.49999997f, -0.0f}, 0), (Shorts{0, 2, 2, 0, -2, -2, 0, 0}));
  EXPECT_EQ(rounded_short({0.375f, 0.625f, -0.375f}, 2), (Shorts{2, 2, -2}));
  EXPECT_EQ(rounded_short({-32768.0f, 32767.0f, -32767.0f}, 0), (Shorts{-32768, 32767, -32767}));
}

TEST_P(FixedPoint, Int16SumsAddOnlyWhenItIsNotTheFirst) {
  const Floats x(37, 3.0f);  // whole vectors of any width, and a rest
  Shorts sums(39, -32000);
  ops_->fixed_accumulate(sums.data(), x.data(), 37, 1, false);
  Shorts expected(37, -31994);
  expected.resize(39, -32000);
  EXPECT_EQ(sums, expected) << "and beyond the count nothing is touched";
  ops_->fixed_accumulate(sums.data(), x.data(), 37, 1, true);
  std::fill_n(expected.begin(), 37, int16_t{6});
  EXPECT_EQ(sums, expected);
}

TEST_P(FixedPoint, Int16SumsUnpackWithOneRoundingEach) {
  Shorts sums = {32767, -32768, 0, 1};
  sums.resize(37, -3);
  Floats x(38, 7.0f);
  ops_->fixed_unpack(x.data(), sums.data(), 37, 0.1f);
  Floats expected = {32767.0f * 0.1f, -32768.0f * 0.1f, 0.0f, 0.1f};
  expected.resize(37, -3.0f * 0.1f);
  expected.push_back(7.0f);
  EXPECT_EQ(x, expected);
}

TEST_P(FixedPoint, UnpacksWithOneRoundingEach) {
  const Ints sums = {16777217, -16777219, 0};  // odd beyond 2^24: the conversion rounds, to even
  Floats x(3, kNan);
  ops_->fixed_unpack(x.data(), sums.data(), 3, 0.1f);
  EXPECT_EQ(x, (Floats{16777216.0f * 0.1f, -16777220.0f * 0.1f, 0.0f}));
}

TEST_P(FixedPoint, LargestMagnitudeIsInfinityIfAnyElementIsNotFinite) {
  for (float bad : {kInfinity, -kInfinity, kNan, -kNan}) {
    for (size_t where : {0u, 20u, 99999u}) {
      Floats x(100000, -3.0f);
      x[where] = bad;
      EXPECT_EQ(ops_->abs_max(x.data(), 100000), kInfinity) << bad << " at " << where;
    }
  }
}

TEST_P(FixedPoint, LargestMagnitudeOfNegativeSubnormalAndNothing) {
  const Floats x = {1.0f, -7.5f, 3.0f}, tiny = {0.0f, -1e-42f};
  EXPECT_EQ(ops_->abs_max(x.data(), 3), 7.5f);
  EXPECT_EQ(ops_->abs_max(tiny.data(), 2), 1e-42f);
  EXPECT_EQ(ops_->abs_max(x.data(), 0), 0.0f);
}

TEST_P(FixedPoint, SumOfSquaresIsNotFiniteIfAnyElementIsNot) {
  for (float bad : {kInfinity, -kInfinity, kNan}) {
    Floats x(70000, 1.0f);
    x[69999] = bad;
    EXPECT_FALSE(std::isfinite(ops_->sum_of_squares(x.data(), 70000)));
  }
  EXPECT_EQ(ops_->sum_of_squares(nullptr, 0), 0.0);
}

TEST_P(FixedPoint, SumsOfSquaresAreOfTheirRangesAlone) {
  const Floats x = {3, 4, kNan, 1, -2, kInfinity, 5};
  const DeviceOps::Floats of[] = {{&x[0], 2}, {&x[2], 1}, {nullptr, 0}, {&x[3], 2}, {&x[4], 2}, {&x[6], 1}};
  double sums[] = {-1, -1, -1, -1, -1, -1, -1};
  ops_->sums_of_squares(sums, of, 6);
  EXPECT_EQ(sums[0], 25);
  EXPECT_FALSE(std::isfinite(sums[1]));
  EXPECT_EQ(sums[2], 0);
  EXPECT_EQ(sums[3], 5);
  EXPECT_FALSE(std::isfinite(sums[4]));
  EXPECT_EQ(sums[5], 25);
  EXPECT_EQ(sums[6], -1) << "beyond the last nothing is touched";
  ops_->sums_of_squares(nullptr, nullptr, 0);
}

TEST_P(FixedPoint, FloatSumsStartFromTheFirst) {
  Floats sums = {kNan, kNan};
  const Floats x = {1, 2};
  ops_->float_accumulate(sums.data(), x.data(), 2, true);
  ops_->float_accumulate(sums.data(), x.data(), 2, false);
  EXPECT_EQ(sums, (Floats{2, 4}));
}

}  // namespace
}  // namespace holdfast::kernels
