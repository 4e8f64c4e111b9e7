// Bytes as text.
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "rendezvous/text/hex.h"
#include "rendezvous/text/random_hex.h"

namespace holdfast::rendezvous {
namespace {

TEST(Hex, EachByteIsTwoLowerCaseDigitsInTheOrderOfTheBytes) {
  const std::array<unsigned char, 4> bytes{0x00, 0x0f, 0xa5, 0xff};
  EXPECT_EQ(hex(std::as_bytes(std::span(bytes))), "000fa5ff");
  EXPECT_EQ(hex({}), "");
}

TEST(RandomHex, HasTwoDigitsForEachByteAndIsNeverTheSameTwice) {
  const std::string one = random_hex(16), other = random_hex(16);
  EXPECT_EQ(one.size(), 32U);
  EXPECT_EQ(one.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_NE(one, other);
  EXPECT_EQ(random_hex(0), "");
}

}  // namespace
}  // namespace holdfast::rendezvous
