#include "worker/sharding/difference_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace holdfast::worker {
namespace {

constexpr FieldBits kAllBits[] = {FieldBits::kEight, FieldBits::kFour, FieldBits::kTwo};

struct Packed {
  std::vector<std::byte> fields, low, high;
  size_t exceptions = 0;
};

Packed pack(const std::vector<uint16_t>& folded, FieldBits bits) {
  Packed packed;
  packed.fields.resize(field_bytes(folded.size(), bits));
  packed.low.resize(folded.size());
  packed.high.resize(folded.size());
  Exceptions exceptions{packed.low.data(), packed.high.data()};
  pack_fields(folded, bits, packed.fields.data(), exceptions);
  packed.exceptions = exceptions.count;
  return packed;
}

Unpacked unpack(Packed& packed, FieldBits bits, std::vector<uint16_t>& folded) {
  Exceptions exceptions{packed.low.data(), packed.high.data()};
  return unpack_fields(packed.fields.data(), bits, folded, exceptions, packed.exceptions);
}

TEST(DifferenceFields, EveryValueComesBackFromFieldsOfEveryWidthAndCount) {
  std::vector<uint16_t> all(0x10000);
  std::iota(all.begin(), all.end(), uint16_t{0});
  for (const FieldBits bits : kAllBits) {
    for (const size_t count : {size_t{0}, size_t{1}, size_t{2}, size_t{3}, size_t{4}, size_t{5}, size_t{299}, all.size()}) {
      const std::vector<uint16_t> folded(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count));
      Packed packed = pack(folded, bits);
      std::vector<uint16_t> back(count);
      ASSERT_EQ(unpack(packed, bits, back), Unpacked::kWhole);
      ASSERT_EQ(back, folded) << count;
    }
  }
}

TEST(DifferenceFields, FieldsLieFromTheLowestBitsAndLargeValuesApart) {
  const Packed four = pack({1, 2, 15}, FieldBits::kFour);
  EXPECT_THAT(four.fields, testing::ElementsAre(std::byte{0x21}, std::byte{0x0f}));
  EXPECT_EQ(four.exceptions, 1u);
  EXPECT_EQ(four.low[0], std::byte{15});
  const Packed two = pack({0, 1, 2, 0x1234, 2}, FieldBits::kTwo);
  EXPECT_THAT(two.fields, testing::ElementsAre(std::byte{0xe4}, std::byte{0x02}));
  EXPECT_EQ(two.low[0], std::byte{0x34});
  EXPECT_EQ(two.high[0], std::byte{0x12});
  EXPECT_THAT(pack({254, 255}, FieldBits::kEight).fields, testing::ElementsAre(std::byte{254}, std::byte{255}));
}

TEST(DifferenceFields, MoreExceptionsThanThereAreAreRefused) {
  for (const FieldBits bits : kAllBits) {
    Packed packed = pack({300, 1, 301}, bits);
    packed.exceptions = 1;
    std::vector<uint16_t> back(3);
    EXPECT_EQ(unpack(packed, bits, back), Unpacked::kTooFewExceptions);
  }
}

TEST(DifferenceFields, BitsBehindTheLastFieldAreRefused) {
  for (const FieldBits bits : {FieldBits::kFour, FieldBits::kTwo}) {
    Packed packed = pack({1}, bits);
    packed.fields[0] |= std::byte{0x80};
    std::vector<uint16_t> back(1);
    EXPECT_EQ(unpack(packed, bits, back), Unpacked::kPaddingIsNotZero);
  }
}

TEST(DifferenceFields, FieldsAreNarrowWhereMostDifferencesAreZeroAndFewAreLarge) {
  std::vector<uint16_t> folded(1000);
  EXPECT_EQ(choose_field_bits(folded), FieldBits::kTwo);
  std::fill_n(folded.begin(), 100, uint16_t{3});
  EXPECT_EQ(choose_field_bits(folded), FieldBits::kFour);
  std::fill_n(folded.begin(), 100, uint16_t{15});
  EXPECT_EQ(choose_field_bits(folded), FieldBits::kEight);
  std::fill(folded.begin(), folded.end(), uint16_t{1});
  EXPECT_EQ(choose_field_bits(folded), FieldBits::kEight);
}

}  // namespace
}  // namespace holdfast::worker
