// Pieces that go round the ring from who has them to who wants them: each link carries a piece at most once, and all arrive.
#include "worker/state/divided/routes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "tests/worker/collectives/ring_of_threads.h"

namespace holdfast::worker {
namespace {

std::vector<Way> ways(const RankSet& has, const RankSet& wants) {
  std::vector<Way> all;
  for (int rank = 0; rank < static_cast<int>(has.size()); ++rank) all.push_back(way_of(has, wants, rank));
  return all;
}

TEST(WayOf, RunsFollowTheRankThatHasThePiece) {
  constexpr Way kNone{}, kFirst{false, true}, kBetween{true, true}, kLast{true, false};
  EXPECT_EQ(ways({1, 0, 0, 0}, {0, 1, 1, 1}), (std::vector{kFirst, kBetween, kBetween, kLast}));
  EXPECT_EQ(ways({0, 0, 1, 0}, {0, 1, 0, 0}), (std::vector{kBetween, kLast, kFirst, kBetween})) << "round the end";
  EXPECT_EQ(ways({1, 0, 1, 0}, {0, 1, 0, 1}), (std::vector{kFirst, kLast, kFirst, kLast})) << "two that have it send at once";
  EXPECT_EQ(ways({1, 0, 0, 0}, {0, 1, 0, 0}), (std::vector{kFirst, kLast, kNone, kNone}));
  EXPECT_EQ(ways({1, 1, 1, 0}, {1, 1, 1, 0}), (std::vector{kNone, kNone, kNone, kNone})) << "who has it does not want it";
}

struct Random {
  std::minstd_rand generator;
  bool flip() { return generator() % 2 == 0; }
};

TEST(WayOf, NeighboursAgreeAndWhoWantsReceivesOnce) {
  Random random;
  for (int round = 0; round < 20'000; ++round) {
    const size_t ranks = 1 + random.generator() % 8;
    RankSet has(ranks), wants(ranks);
    has[random.generator() % ranks] = true;
    for (size_t rank = 0; rank < ranks; ++rank) {
      has[rank] = has[rank] || random.flip();
      wants[rank] = random.flip();
    }
    const auto all = ways(has, wants);
    for (size_t rank = 0; rank < ranks; ++rank) {
      ASSERT_EQ(all[rank].sends, all[(rank + 1) % ranks].receives);
      ASSERT_FALSE(has[rank] && all[rank].receives);
      ASSERT_TRUE(!wants[rank] || has[rank] || all[rank].receives);
      ASSERT_TRUE(!all[rank].sends || has[rank] || all[rank].receives) << "it must come from somewhere";
    }
  }
}

// Pieces of many sizes, each with its own holders and takers, over a real ring; then every taker has the bytes.
TEST(Route, BringsEveryPieceToAllThatWantIt) {
  constexpr size_t kPieces = 60;
  for (const int ranks : {1, 2, 3, 5}) {
    std::vector<RankSet> has(kPieces), wants(kPieces);
    std::vector<size_t> sizes;
    Random random;
    for (size_t piece = 0; piece < kPieces; ++piece) {
      sizes.push_back(1 + random.generator() % 700'000);
      const auto count = static_cast<size_t>(ranks);
      has[piece].assign(count, false);
      wants[piece].assign(count, false);
      has[piece][random.generator() % count] = true;
      for (size_t rank = 0; rank < count; ++rank) wants[piece][rank] = random.flip();
    }
    RingOfThreads ring(ranks);
    ring.run([&](Communicator& communicator) {
      const auto me = static_cast<size_t>(communicator.rank());
      const auto ops = kernels::make_ref_ops(kernels::DType::kFloat32);
      std::vector<std::vector<std::byte>> bytes(kPieces);
      std::vector<RoutedPiece> pieces;
      int64_t expected = 0;
      for (size_t piece = 0; piece < kPieces; ++piece) {
        const bool here = has[piece][me] || wants[piece][me];
        bytes[piece].assign(here ? sizes[piece] : 0, std::byte{static_cast<uint8_t>(has[piece][me] ? piece + 1 : 0)});
        pieces.push_back({here ? bytes[piece].data() : nullptr, sizes[piece], piece % 2 == 0,
                          way_of(has[piece], wants[piece], communicator.rank())});
        if (wants[piece][me] && !has[piece][me]) expected += static_cast<int64_t>(sizes[piece]);
      }
      const auto received = route(communicator, *ops, pieces, "state_copy", -1);
      ASSERT_TRUE(received) << received.error().detail;
      EXPECT_EQ(*received, expected);
      for (size_t piece = 0; piece < kPieces; ++piece) {
        const std::byte right{static_cast<uint8_t>(piece + 1)};
        EXPECT_TRUE(std::ranges::all_of(bytes[piece], [&](std::byte byte) { return byte == right; })) << "piece " << piece;
      }
    });
  }
}

}  // namespace
}  // namespace holdfast::worker
