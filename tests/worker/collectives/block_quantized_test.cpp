// 8-bit blocks: how far off they are, where they begin, and what is not finite.
#include "worker/collectives/block_quantized.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace holdfast::worker {
namespace {

using Floats = std::vector<float>;
using Bytes = std::vector<std::byte>;

Bytes quantized(const Floats& x) {
  Bytes bytes(quantized_bytes(x.size()));
  quantize(x, bytes);
  return bytes;
}

Floats there_and_back(const Floats& x) {
  Floats back(x.size());
  dequantize(quantized(x), back);
  return back;
}

Floats normal(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> draw(0.0F, 3e-3F);
  Floats x(count);
  for (float& value : x) value = draw(random);
  return x;
}

TEST(BlockQuantized, TakesAByteAnElementAndAFloatABlock) {
  EXPECT_EQ(quantized_bytes(0), 0U);
  EXPECT_EQ(quantized_bytes(1), 5U);
  EXPECT_EQ(quantized_bytes(512), 516U);
  EXPECT_EQ(quantized_bytes(513), 521U);
  EXPECT_EQ(quantized_bytes(512 * 1000), 516U * 1000);
}

TEST(BlockQuantized, IsOffByHalfAQuantumOfItsBlockAtMost) {
  for (const size_t size : {1, 2, 511, 512, 513, 5000}) {
    Floats x = normal(size, 3);
    if (size > 512) {
      for (size_t i = 0; i < 512; ++i) x[i] *= 1e6F;  // one block's scale is nothing to the others
    }
    const Floats back = there_and_back(x);
    for (size_t first = 0; first < size; first += 512) {
      const auto begin = x.begin() + static_cast<std::ptrdiff_t>(first);
      const auto end = x.begin() + static_cast<std::ptrdiff_t>(std::min(first + 512, size));
      float largest = 0;
      for (auto at = begin; at != end; ++at) largest = std::max(largest, std::fabs(*at));
      for (size_t i = first; i < std::min(first + 512, size); ++i)
        ASSERT_LE(std::fabs(x[i] - back[i]), largest / 254 * 1.0001F) << i << " of " << size;
    }
  }
}

TEST(BlockQuantized, KeepsTheLargestAndZeroAndRoundsTiesToEven) {
  const Floats x = {127.0F, -127.0F, 0.0F, 0.5F, 1.5F, -2.5F, -0.49F, 126.5F};
  EXPECT_EQ(there_and_back(x), (Floats{127.0F, -127.0F, 0.0F, 0.0F, 2.0F, -2.0F, 0.0F, 126.0F}));
}

TEST(BlockQuantized, APieceThatBeginsAtABlockHasTheBytesOfTheWholeFromThere) {
  const Floats x = normal(1800, 5);
  const Bytes whole = quantized(x), piece = quantized(Floats(x.begin() + 1024, x.end()));
  EXPECT_TRUE(
      std::equal(piece.begin(), piece.end(), whole.begin() + static_cast<std::ptrdiff_t>(quantized_bytes(1024)), whole.end()));
}

TEST(BlockQuantized, AddsAndSubtractsWhatItDequantizes) {
  const Floats x = normal(1300, 7), back = there_and_back(x);
  const Bytes bytes = quantized(x);
  Floats sum(x.size(), 0.25F), error = x;
  add_dequantized(bytes, sum);
  subtract_dequantized(bytes, error);
  for (size_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(sum[i], 0.25F + back[i]);
    ASSERT_EQ(error[i], x[i] - back[i]);
  }
}

TEST(BlockQuantized, ABlockThatIsNotFiniteIsNanAndLeavesNoError) {
  for (const float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::quiet_NaN()}) {
    Floats x(1100, 1.0F);
    x[600] = bad;
    const Floats back = there_and_back(x);
    EXPECT_EQ(back[511], 1.0F);
    EXPECT_TRUE(std::isnan(back[512]) && std::isnan(back[600]) && std::isnan(back[1023]));
    EXPECT_EQ(back[1024], 1.0F);
    Floats error = x;
    subtract_dequantized(quantized(x), error);
    EXPECT_TRUE(std::all_of(error.begin(), error.end(), [](float e) { return e == 0.0F; }));
  }
}

TEST(BlockQuantized, WhatIsTooSmallForAScaleIsZeroAndItsErrorIsAllOfIt) {
  Floats x(600, 0x1p-140F);
  x[599] = 0.0F;
  EXPECT_EQ(there_and_back(x), Floats(600, 0.0F));
  Floats error = x;
  subtract_dequantized(quantized(x), error);
  EXPECT_EQ(error, x);
  EXPECT_EQ(there_and_back(Floats(600, 0x1p-100F)), Floats(600, 127 * (0x1p-100F / 127)));
}

}  // namespace
}  // namespace holdfast::worker
