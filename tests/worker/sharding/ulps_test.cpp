// The order of 16-bit floats: every pattern, and every difference.
#include "worker/sharding/ulps.h"

#include <gtest/gtest.h>

#include <vector>

namespace holdfast::worker {
namespace {

TEST(Ulps, EveryPatternHasItsOwnPlaceAndComesBackFromIt) {
  std::vector<bool> taken(0x10000);
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const uint16_t place = in_order(static_cast<uint16_t>(bits));
    ASSERT_FALSE(taken[place]) << bits;
    taken[place] = true;
    ASSERT_EQ(in_order(place), bits);
  }
}

TEST(Ulps, LargerNumbersHaveLaterPlacesAndZerosLieSideBySide) {
  for (uint32_t bits = 1; bits < 0x8000; ++bits) {
    ASSERT_EQ(static_cast<int16_t>(in_order(static_cast<uint16_t>(bits))), static_cast<int>(bits));
    ASSERT_EQ(static_cast<int16_t>(in_order(static_cast<uint16_t>(bits | 0x8000))), -1 - static_cast<int>(bits));
  }
  EXPECT_EQ(folded_difference(0x0000, 0x8000), 1) << "from +0 to -0: one ULP down";
  EXPECT_EQ(folded_difference(0x8001, 0x0001), 6) << "across zero: three ULPs up";
}

TEST(Ulps, SmallDifferencesAreSmallNumbersOfEitherSign) {
  const std::vector<uint16_t> expected = {0, 2, 4, 6};
  for (uint16_t ulps = 0; ulps < expected.size(); ++ulps) {
    EXPECT_EQ(folded_difference(0x3f80, static_cast<uint16_t>(0x3f80 + ulps)), expected[ulps]);
    if (ulps > 0) {
      EXPECT_EQ(folded_difference(0x3f80, static_cast<uint16_t>(0x3f80 - ulps)), expected[ulps] - 1);
    }
  }
}

TEST(Ulps, EveryDifferenceLeadsFromEveryPatternToAnotherAndIsFoundAgain) {
  for (const uint32_t before : {0x0000u, 0x8000u, 0x3f80u, 0xbf80u, 0x7f80u, 0xff80u, 0x7fffu, 0xffffu, 0x0001u, 0x7c00u}) {
    for (uint32_t after = 0; after < 0x10000; ++after) {
      const uint16_t folded = folded_difference(static_cast<uint16_t>(before), static_cast<uint16_t>(after));
      ASSERT_EQ(with_difference(static_cast<uint16_t>(before), folded), after) << before;
    }
  }
  for (uint32_t before = 0; before < 0x10000; ++before) {
    for (uint32_t folded = 0; folded < 0x10000; folded += 257) {
      const uint16_t after = with_difference(static_cast<uint16_t>(before), static_cast<uint16_t>(folded));
      ASSERT_EQ(folded_difference(static_cast<uint16_t>(before), after), folded) << before;
    }
  }
}

}  // namespace
}  // namespace holdfast::worker
