// The order of mixtures: in each block each source has its share, and a source's sequences come in its own order.
#include "model/data/mixture_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace holdfast::model {
namespace {

using Dealt = MixtureOrder::Dealt;

int64_t sum(const std::vector<int64_t>& shares) {
  return std::accumulate(shares.begin(), shares.end(), int64_t{0});
}

std::vector<int64_t> counts_of(const std::vector<Dealt>& dealt, size_t sources) {
  std::vector<int64_t> counts(sources);
  for (const Dealt& sequence : dealt) ++counts[sequence.source];
  return counts;
}

// As weights with a few digits make them: from 1 to 16 sources, and blocks from 1 to some thousands.
MixtureOrder random_order(std::mt19937_64& random) {
  MixtureOrder order{random(), std::vector<int64_t>(1 + random() % 16)};
  const int64_t most = random() % 2 == 0 ? 10 : 700;
  for (int64_t& share : order.shares) share = 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(most));
  return order;
}

TEST(MixtureOrder, GivesEachSourceItsShareOfEveryBlock) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 2000; ++round) {
    const MixtureOrder order = random_order(random);
    const int64_t length = sum(order.shares), block = static_cast<int64_t>(random() % 1'000'000'000);
    ASSERT_EQ(counts_of(order.deal(block * length, length), order.shares.size()), order.shares) << "round " << round;
  }
}

TEST(MixtureOrder, NumbersTheSequencesOfASourceWithoutGaps) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 2000; ++round) {
    const MixtureOrder order = random_order(random);
    std::vector<int64_t> next(order.shares.size());
    for (const Dealt& sequence : order.deal(0, 3000)) ASSERT_EQ(sequence.number, next[sequence.source]++) << "round " << round;
  }
}

TEST(MixtureOrder, IsTheSameInWhateverPiecesItIsAskedFor) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 500; ++round) {
    const MixtureOrder order = random_order(random);
    const int64_t first = static_cast<int64_t>(random() % 1'000'000);
    const std::vector<Dealt> all = order.deal(first, 600);
    const int64_t from = static_cast<int64_t>(random() % 500), count = 1 + static_cast<int64_t>(random() % 100);
    const std::vector<Dealt> piece = order.deal(first + from, count);
    ASSERT_TRUE(std::ranges::equal(piece, std::span(all).subspan(static_cast<size_t>(from), static_cast<size_t>(count))))
        << "round " << round;
  }
}

TEST(MixtureOrder, OfOneSourceIsThatSource) {
  const MixtureOrder order{7, {1}};
  const std::vector<Dealt> dealt = order.deal(1'000'000'000'000, 5);
  for (int64_t i = 0; i < 5; ++i) EXPECT_EQ(dealt[static_cast<size_t>(i)], (Dealt{0, 1'000'000'000'000 + i}));
  EXPECT_EQ(order.seed_of(0), 7U);
}

TEST(MixtureOrder, HoldsTheSharesWithinABlockThatIsLongerThanAJob) {
  const MixtureOrder order{5, {7'123'000'001, 1, 2'876'999'999, 9'999'990'000, 9'999'990'000}};
  const auto length = static_cast<double>(sum(order.shares));
  for (const int64_t places : {256, 2560, 256'000}) {
    const auto counts = counts_of(order.deal(0, places), order.shares.size());
    for (size_t i = 0; i < counts.size(); ++i) {
      EXPECT_NEAR(static_cast<double>(counts[i]), static_cast<double>(places) * static_cast<double>(order.shares[i]) / length,
                  5)
          << "source " << i << " of " << places;
    }
  }
}

TEST(MixtureOrder, TakesTheLargestSharesThatASpecMayHave) {
  const MixtureOrder order{5, std::vector<int64_t>(16, 9'999'999'999)};
  const int64_t length = sum(order.shares);
  const auto last = order.deal(length - 1, 2);  // the last of a block, and the first of the next
  EXPECT_EQ(last[0].number, order.shares[last[0].source] - 1) << "the block ends as the shares say";
  EXPECT_EQ(last[1].number, order.shares[last[1].source]);
}

// A job whose rows, or whose replicas of local steps, each had a source of their own would learn otherwise.
TEST(MixtureOrder, LooksLikeAShuffleWithinAGroup) {
  const MixtureOrder order{11, {1, 1}};
  int64_t first_is_first = 0, same = 0;
  constexpr int64_t kBlocks = 10'000;
  size_t before = 0;
  for (int64_t block = 0; block < kBlocks; ++block) {
    const size_t source = order.deal(2 * block, 1)[0].source;
    first_is_first += source == 0 ? 1 : 0;
    same += source == before ? 1 : 0;
    before = source;
  }
  EXPECT_NEAR(static_cast<double>(first_is_first), kBlocks / 2.0, 5 * std::sqrt(kBlocks) / 2);
  EXPECT_NEAR(static_cast<double>(same), kBlocks / 2.0, 5 * std::sqrt(kBlocks) / 2);
}

TEST(MixtureOrder, SeedsGiveDifferentOrdersAndSourcesDifferentSeeds) {
  const MixtureOrder one{1, {7, 3}}, other{2, {7, 3}};
  EXPECT_NE(one.deal(0, 100), other.deal(0, 100));
  std::set<uint64_t> seeds;
  for (size_t source = 0; source < 16; ++source) {
    seeds.insert(one.seed_of(source));
    seeds.insert(other.seed_of(source));
  }
  EXPECT_EQ(seeds.size(), 32U);
}

TEST(MixtureOrder, IsAFunctionOfItsArguments) {
  // These constants were written down once: with other values a resumed job would train on different data.
  const MixtureOrder order{11, {7, 2, 1}};
  std::string sources;
  for (const Dealt& sequence : order.deal(95, 20)) sources += std::to_string(sequence.source);
  EXPECT_EQ(sources, "01000000010010201020");
  EXPECT_EQ(order.deal(1'000'000'000'003, 1)[0], (Dealt{0, 700'000'000'002}));
  EXPECT_EQ(order.seed_of(1), 13441527638652811843U);
  const MixtureOrder longer{11, {7123, 2877}};
  sources.clear();
  for (const Dealt& sequence : longer.deal(9990, 20)) sources += std::to_string(sequence.source);
  EXPECT_EQ(sources, "00000110001000011000");
}

}  // namespace
}  // namespace holdfast::model
