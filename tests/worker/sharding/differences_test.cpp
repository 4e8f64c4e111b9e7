// The coder of differences as a whole: lossless, never longer than the plain copy and its header, the same bytes again.
#include "worker/sharding/differences.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "worker/sharding/ulps.h"

namespace holdfast::worker {
namespace {

using Copy = std::vector<uint16_t>;

constexpr auto kUnchanged = std::byte{0}, kCoded = std::byte{1}, kPlain = std::byte{2};

class Differences : public testing::Test {
 protected:
  // The coded bytes, after they were decoded to `after` again.
  std::vector<std::byte> there_and_back(const Copy& before, const Copy& after) {
    const auto coded = encoder_.encode(before, after);
    std::vector<std::byte> bytes(coded.begin(), coded.end());
    EXPECT_LE(bytes.size(), kDifferencesHeaderBytes + 2 * after.size());
    Copy copy = before;
    const auto decoded = decoder_.decode(bytes, copy);
    EXPECT_TRUE(decoded) << decoded.error();
    EXPECT_TRUE(copy == after) << after.size() << " elements";
    return bytes;
  }

  Copy noise(size_t elements) {
    Copy copy(elements);
    for (auto& bits : copy) bits = static_cast<uint16_t>(random_());
    return copy;
  }

  // Weights as they are at the start, as bfloat16.
  Copy weights(size_t elements) {
    std::normal_distribution<float> normal(0, 0.02F);
    Copy copy(elements);
    for (auto& bits : copy) bits = static_cast<uint16_t>(std::bit_cast<uint32_t>(normal(random_)) >> 16);
    return copy;
  }

  // As a step of about `rate` moves them.
  Copy stepped(const Copy& before, float rate) {
    std::normal_distribution<float> normal(0, rate);
    Copy after = before;
    for (auto& bits : after) {
      const float value = std::bit_cast<float>(static_cast<uint32_t>(bits) << 16) + normal(random_);
      bits = static_cast<uint16_t>((std::bit_cast<uint32_t>(value) + 0x8000) >> 16);
    }
    return after;
  }

  DifferenceEncoder encoder_;
  DifferenceDecoder decoder_;
  std::mt19937 random_{1};  // always the same
};

TEST_F(Differences, ACopyThatDidNotChangeIsItsHeader) {
  for (const size_t elements : {size_t{0}, size_t{1}, size_t{65536}}) {
    const Copy copy = noise(elements);
    const auto coded = there_and_back(copy, copy);
    EXPECT_EQ(coded.size(), kDifferencesHeaderBytes);
    EXPECT_EQ(coded[0], kUnchanged);
  }
}

TEST_F(Differences, EveryPatternBecomesEveryOther) {
  Copy all(0x10000);
  std::iota(all.begin(), all.end(), uint16_t{0});
  for (const uint32_t distance : {1u, 2u, 127u, 128u, 0x7fffu, 0x8000u, 0xffffu}) {
    Copy after = all;
    for (auto& bits : after) bits = static_cast<uint16_t>(bits + distance);
    there_and_back(all, after);
    for (size_t i = 0; i < all.size(); ++i) after[i] = all[i] ^ static_cast<uint16_t>(distance);
    there_and_back(all, after);
  }
  Copy shuffled = all;
  std::ranges::shuffle(shuffled, random_);
  there_and_back(all, shuffled);
  there_and_back(shuffled, all);
  there_and_back(Copy(all.size(), 0), all);
  there_and_back(all, Copy(all.size(), 0x8000));
}

TEST_F(Differences, EverySmallLengthAndThoseAroundAChunk) {
  for (size_t elements = 0; elements <= 700; ++elements) {
    const Copy before = weights(elements);
    there_and_back(before, stepped(before, 6e-4F));
    there_and_back(before, noise(elements));
  }
  for (const size_t elements : {1023u, 1024u, 1025u, 2047u, 2048u, 2049u, 4095u, 32767u, 65535u, 65536u, 65537u, 70000u}) {
    const Copy before = weights(elements);
    there_and_back(before, stepped(before, 6e-4F));
    there_and_back(before, noise(elements));
  }
}

TEST_F(Differences, StepsAreAFewBitsAnElement) {
  const Copy before = weights(65536);
  size_t shorter = 2 * before.size();
  for (const float rate : {6e-3F, 6e-4F, 6e-5F, 6e-6F, 6e-7F}) {
    const auto coded = there_and_back(before, stepped(before, rate));
    EXPECT_EQ(coded[0], kCoded);
    EXPECT_LT(coded.size(), shorter) << "smaller steps are shorter";
    shorter = coded.size();
  }
  EXPECT_LT(there_and_back(before, stepped(before, 6e-5F)).size() * 8, before.size() * 3);
}

TEST_F(Differences, ARandomWalkIsFollowedStepByStep) {
  Copy copy = weights(20000), followers = copy;
  for (int step = 0; step < 50; ++step) {
    const Copy after = stepped(copy, 1e-3F);
    const auto decoded = decoder_.decode(encoder_.encode(copy, after), followers);
    ASSERT_TRUE(decoded) << decoded.error();
    ASSERT_TRUE(followers == after) << "step " << step;
    copy = after;
  }
}

TEST_F(Differences, NoiseTravelsPlain) {
  const Copy before = weights(65536);
  const auto coded = there_and_back(before, noise(65536));
  EXPECT_EQ(coded[0], kPlain);
  EXPECT_EQ(coded.size(), kDifferencesHeaderBytes + 2 * before.size());
}

TEST_F(Differences, OneElementThatChangedIsAHundredthOfTheCopy) {
  const Copy before = weights(65536);
  for (const size_t where : {size_t{0}, size_t{40000}, size_t{65535}}) {
    for (const unsigned bits : {0x0001u, 0x8000u, 0xffffu}) {
      Copy after = before;
      after[where] = static_cast<uint16_t>(after[where] ^ bits);
      EXPECT_LT(there_and_back(before, after).size() * 100, 2 * before.size());
    }
  }
}

TEST_F(Differences, CopiesMadeToBeHardAreOnlyLong) {
  const Copy before = weights(65536);
  for (const uint16_t folded : {uint16_t{3}, uint16_t{15}, uint16_t{254}, uint16_t{255}, uint16_t{256}, uint16_t{65535}}) {
    for (const uint32_t every : {1u, 2u, 49u, 51u, 99u, 101u, 1000u}) {
      Copy after = before;
      for (size_t i = 0; i < after.size(); i += every) after[i] = with_difference(before[i], folded);
      there_and_back(before, after);
    }
  }
  Copy alternating(65536);
  for (size_t i = 0; i < alternating.size(); ++i) alternating[i] = i % 2 == 0 ? 0xff80 : 0x7fff;  // -infinity, a NaN
  there_and_back(alternating, before);
  there_and_back(before, alternating);
}

TEST_F(Differences, TheSameCopiesGiveTheSameBytesWhateverCameBefore) {
  const Copy before = weights(50000), after = stepped(before, 6e-4F);
  const auto first = there_and_back(before, after);
  there_and_back(before, noise(50000));  // gives up in the middle of a frame
  there_and_back(weights(65536), weights(65536));
  EXPECT_EQ(there_and_back(before, after), first);
  DifferenceEncoder other;
  const auto again = other.encode(before, after);
  EXPECT_TRUE(std::ranges::equal(again, first));
}

TEST_F(Differences, CopiesOfDifferentLengthsEndTheProgram) {
  EXPECT_DEATH(encoder_.encode(Copy(3), Copy(2)), "a copy of 2 elements was to be coded against one of 3");
}

}  // namespace
}  // namespace holdfast::worker
