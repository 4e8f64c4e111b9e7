// Bytes that no encoder wrote: every one is an error that says what is wrong, and leaves the receiver's copy as it was.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <xxhash.h>
#include <zstd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <random>
#include <vector>

#include "worker/sharding/differences.h"
#include "worker/sharding/ulps.h"

namespace holdfast::worker {
namespace {

using Bytes = std::vector<std::byte>;
using Copy = std::vector<uint16_t>;
using testing::HasSubstr;

// All of `bytes` in memory of its own, so that a sanitizer sees a read beyond its end.
Bytes exactly(std::span<const std::byte> bytes) {
  Bytes own(bytes.begin(), bytes.end());
  own.shrink_to_fit();
  return own;
}

class MalformedDifferences : public testing::Test {
 protected:
  // Large weights that hardly move, and small ones that do: fields of all three widths, and exceptions.
  MalformedDifferences() {
    constexpr uint16_t kMagnitudes[] = {0x3c00, 0x3a80, 0x3900};
    for (size_t i = 0; i < 4000; ++i) {
      before_.push_back(static_cast<uint16_t>(kMagnitudes[i % 3] + random_() % 128 + (random_() % 2 << 15)));
      const uint32_t draw = random_();
      const uint32_t small[] = {draw % 50 == 0 ? 1u : 0u, draw % 3, draw % 40 == 0 ? 300 + draw % 500 : draw % 30};
      after_.push_back(with_difference(before_.back(), static_cast<uint16_t>(small[i % 3])));
    }
    coded_ = exactly(DifferenceEncoder().encode(before_, after_));
  }

  // The error of decoding, which must have left the copy alone; "" where there is none.
  std::string error_of(const Bytes& bytes, const Copy& before) {
    Copy copy = before;
    const auto decoded = decoder_.decode(bytes, copy);
    if (decoded) return "";
    EXPECT_TRUE(copy == before) << decoded.error();
    EXPECT_THAT(decoded.error(), HasSubstr("differences of a copy: "));
    return decoded.error();
  }
  std::string error_of(const Bytes& bytes) { return error_of(bytes, before_); }

  // A chunk of `copy` that says "coded", with a right checksum, these widths, and a frame of `content`.
  static Bytes made(const Copy& after, std::initializer_list<unsigned> widths, const Bytes& content) {
    Bytes bytes(kDifferencesHeaderBytes);
    bytes[0] = std::byte{1};
    const auto checksum = static_cast<uint32_t>(XXH3_64bits(after.data(), 2 * after.size()));
    std::memcpy(bytes.data() + 1, &checksum, sizeof checksum);
    for (const unsigned width : widths) bytes.push_back(static_cast<std::byte>(width));
    Bytes frame(ZSTD_compressBound(content.size()));
    frame.resize(ZSTD_compress(frame.data(), frame.size(), content.data(), content.size(), 1));
    bytes.insert(bytes.end(), frame.begin(), frame.end());
    return bytes;
  }

  std::mt19937 random_{2};  // always the same
  Copy before_, after_;
  Bytes coded_;
  DifferenceDecoder decoder_;
};

TEST_F(MalformedDifferences, TheExampleIsCodedWithFieldsOfEveryWidth) {
  EXPECT_EQ(coded_[0], std::byte{1});
  EXPECT_EQ(coded_[kDifferencesHeaderBytes], std::byte{0b00'01'10}) << "two, four and eight bits";
  EXPECT_EQ(error_of(coded_), "");
}

TEST_F(MalformedDifferences, EveryLengthThatIsCutOffIsRefused) {
  for (size_t length = 0; length < coded_.size(); ++length) {
    ASSERT_NE(error_of(exactly(std::span(coded_).first(length))), "") << length << " of " << coded_.size() << " bytes";
  }
  Bytes longer = coded_;
  longer.push_back(std::byte{0});
  EXPECT_NE(error_of(longer), "");
  longer.insert(longer.end(), coded_.begin() + kDifferencesHeaderBytes + 1, coded_.end());
  EXPECT_NE(error_of(longer), "");
}

// Some alterations lead to the same copy: a bit of a zstd frame may mean nothing. They are not errors.
TEST_F(MalformedDifferences, EveryByteThatIsAlteredIsAnErrorOrMeansTheSame) {
  size_t same = 0, all = 0;
  for (size_t i = 0; i < coded_.size(); ++i) {
    for (const unsigned flip : {0x01u, 0x02u, 0x10u, 0x80u, 0xffu}) {
      Bytes bytes = coded_;
      bytes[i] ^= static_cast<std::byte>(flip);
      Copy copy = before_;
      const auto decoded = decoder_.decode(bytes, copy);
      ASSERT_TRUE(copy == (decoded ? after_ : before_)) << "byte " << i << " ^ " << flip;
      same += static_cast<size_t>(decoded.has_value());
      ++all;
    }
  }
  EXPECT_LT(same * 100, all);
}

TEST_F(MalformedDifferences, AlteredPlainAndUnchangedCopiesAreRefused) {
  Copy noise(before_.size());
  for (auto& bits : noise) bits = static_cast<uint16_t>(random_());
  Bytes plain = exactly(DifferenceEncoder().encode(before_, noise));
  ASSERT_EQ(plain[0], std::byte{2});
  EXPECT_EQ(error_of(plain), "");
  plain[1000] ^= std::byte{1};
  EXPECT_THAT(error_of(plain), HasSubstr("checksum"));
  plain.pop_back();
  EXPECT_THAT(error_of(plain), HasSubstr("7999 bytes follow a header that says \"plain\", expected 8000"));

  Bytes unchanged = exactly(DifferenceEncoder().encode(before_, before_));
  EXPECT_EQ(error_of(unchanged), "");
  EXPECT_THAT(error_of(unchanged, after_), HasSubstr("the copy before the step is not the sender's"));
  unchanged.push_back(std::byte{0});
  EXPECT_THAT(error_of(unchanged), HasSubstr("1 bytes follow a header that says \"unchanged\""));
}

TEST_F(MalformedDifferences, AnotherCopyBeforeTheStepIsRefused) {
  Copy other = before_;
  other[17] ^= 1;
  EXPECT_THAT(error_of(coded_, other), HasSubstr("checksum"));
  other = before_;
  other.pop_back();
  EXPECT_NE(error_of(coded_, other), "");
  other = before_;
  other.push_back(0);
  EXPECT_NE(error_of(coded_, other), "");
  EXPECT_NE(error_of(coded_, {}), "");
}

TEST_F(MalformedDifferences, ErrorsSayWhatIsWrong) {
  const Copy copy(10, 0x3f80);
  const Bytes ten(10);
  EXPECT_EQ(error_of(made(copy, {0}, ten), copy), "");
  EXPECT_THAT(error_of({}, copy), HasSubstr("0 bytes came, which is less than a header of 5"));
  EXPECT_THAT(error_of(Bytes(5, std::byte{7}), copy), HasSubstr("its format is 7, expected 0, 1 or 2"));
  EXPECT_THAT(error_of(Bytes(5, std::byte{1}), copy), HasSubstr("it ends after 0 of 1 bytes of widths"));
  EXPECT_THAT(error_of(made(copy, {3}, ten), copy), HasSubstr("the width of group 0 of 1 is 3, at most 2 is one"));
  EXPECT_THAT(error_of(made(copy, {4}, ten), copy), HasSubstr("the width of group 1 of 1 is 1, at most 0 is one"));
  EXPECT_THAT(error_of(made(copy, {0, 0}, ten), copy), HasSubstr("not a zstd frame"));
  Bytes two_frames = made(copy, {0}, ten);
  const Bytes frame(two_frames.begin() + kDifferencesHeaderBytes + 1, two_frames.end());
  two_frames.insert(two_frames.end(), frame.begin(), frame.end());
  EXPECT_THAT(error_of(two_frames, copy), HasSubstr("not one whole zstd frame"));
  EXPECT_THAT(error_of(made(copy, {0}, Bytes(9)), copy), HasSubstr("its frame has 9 bytes, expected 10 of fields"));
  EXPECT_THAT(error_of(made(copy, {0}, Bytes(11)), copy), HasSubstr("its frame has 11 bytes, expected 10 of fields"));
  EXPECT_THAT(error_of(made(copy, {0}, Bytes(12)), copy), HasSubstr("it has 1 exceptions, 0 of which are asked for"));
  EXPECT_THAT(error_of(made(copy, {0}, Bytes(31)), copy), HasSubstr("its frame does not decompress"));
  EXPECT_THAT(error_of(made(copy, {0}, Bytes(1 << 20)), copy), HasSubstr("its frame does not decompress"));
  EXPECT_THAT(error_of(made(copy, {0}, Bytes(10, std::byte{0xff})), copy),
              HasSubstr("group 0 asks for more than its 0 exceptions"));
  EXPECT_THAT(error_of(made(copy, {2}, Bytes(3, std::byte{0x10})), copy),
              HasSubstr("the last byte of group 0 is not padded with zeros"));
}

TEST_F(MalformedDifferences, NothingIsReadThatIsNotThereWhateverComes) {
  for (int round = 0; round < 20000; ++round) {
    Bytes bytes = coded_;
    const size_t changes = 1 + random_() % 8;
    for (size_t k = 0; k < changes; ++k) bytes[random_() % bytes.size()] = static_cast<std::byte>(random_());
    if (round % 4 == 0) bytes = exactly(std::span(bytes).first(random_() % bytes.size()));
    if (round % 8 == 1) {
      bytes.resize(random_() % 64);
      for (auto& byte : bytes) byte = static_cast<std::byte>(random_());
      if (!bytes.empty()) bytes[0] = static_cast<std::byte>(random_() % 3);
    }
    Copy copy(before_.begin(), before_.begin() + static_cast<std::ptrdiff_t>(round % 3 == 0 ? random_() % 4000 : 4000));
    const Copy as_it_was = copy;
    const bool decoded = decoder_.decode(bytes, copy).has_value();
    ASSERT_TRUE(decoded || copy == as_it_was) << "round " << round;
  }
}

// The checksum does not shield what is behind it: fields and exceptions that a frame could hold, with a checksum that fits
// none.
TEST_F(MalformedDifferences, FramesWithAnyContentAreRefusedOrDecoded) {
  const Copy copy(before_.begin(), before_.begin() + 500);
  for (int round = 0; round < 3000; ++round) {
    const unsigned width = random_() % 3;
    Bytes content((copy.size() >> width) + random_() % 40);
    const unsigned ones = random_() % 60;
    for (auto& byte : content) byte = random_() % 64 < ones ? std::byte{0xff} : static_cast<std::byte>(random_());
    error_of(made(copy, {width}, content), copy);
  }
}

}  // namespace
}  // namespace holdfast::worker
