// A state on its way to any number of ranks that lack it, over real connections.
#include "worker/state/pieces.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <random>

#include "tests/worker/collectives/ring_of_threads.h"

namespace holdfast::worker {
namespace {

using Piece = std::vector<std::byte>;
using Memory = std::vector<Piece>;  // of one rank

Piece random_bytes(size_t size, std::mt19937& random) {
  Piece piece(size);
  for (std::byte& byte : piece) byte = static_cast<std::byte>(random());
  return piece;
}

Memory some_state(std::mt19937& random) {
  Memory state;
  for (size_t i = 0, count = 1 + random() % 12; i < count; ++i) state.push_back(random_bytes(1 + random() % 400000, random));
  return state;
}

struct Outcome {
  std::vector<RunResult<PieceCopy>> copies;
  std::vector<uint64_t> bytes_moved;
};

// Copies among ranks with these memories.
Outcome copy_among(RingOfThreads& ranks, std::vector<Memory>& memories, const std::vector<bool>& holds) {
  Outcome outcome;
  outcome.copies.resize(memories.size());
  outcome.bytes_moved.resize(memories.size());
  ++ranks.options().generation;
  ranks.run([&](Communicator& ring) {
    const auto me = static_cast<size_t>(ring.rank());
    std::vector<std::span<std::byte>> pieces(memories[me].begin(), memories[me].end());
    outcome.copies[me] = copy_pieces(ring, pieces, holds);
    outcome.bytes_moved[me] = ring.bytes_moved();
  });
  return outcome;
}

size_t bytes_of(const Memory& memory) {
  size_t bytes = 0;
  for (const Piece& piece : memory) bytes += piece.size();
  return bytes;
}

TEST(StatePieces, ReachEveryRankThatLacksThemWhoeverHoldsThem) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  for (const int world : {2, 3, 5}) {
    RingOfThreads ranks(world);
    for (int trial = 0; trial < 6; ++trial) {
      const Memory state = some_state(random);
      std::vector<bool> holds;
      for (int rank = 0; rank < world; ++rank) holds.push_back(random() % 2 == 0);
      holds[random() % holds.size()] = true;
      std::vector<Memory> memories(holds.size(), state);
      for (size_t rank = 0; rank < holds.size(); ++rank) {
        for (Piece& piece : memories[rank]) {
          if (!holds[rank] && random() % 4 != 0) piece = random_bytes(piece.size(), random);
        }
      }
      const Outcome outcome = copy_among(ranks, memories, holds);
      for (size_t rank = 0; rank < holds.size(); ++rank) {
        ASSERT_TRUE(outcome.copies[rank]) << outcome.copies[rank].error().reason;
        EXPECT_EQ(memories[rank], state) << "rank " << rank << " of " << world;
        EXPECT_TRUE(outcome.copies[rank]->fetched_again.empty());
      }
    }
  }
}

TEST(StatePieces, TakeNoLinkTwiceAndNoneBetweenHolders) {
  std::mt19937 random(3);
  RingOfThreads ranks(5);
  const Memory state{random_bytes(3000000, random), random_bytes(2000000, random)};
  std::vector<Memory> memories(5, state);
  for (const size_t rank : {1, 2}) memories[rank] = {Piece(3000000), Piece(2000000)};
  const Outcome outcome = copy_among(ranks, memories, {true, false, false, true, true});
  const uint64_t all = bytes_of(state), little = 100000;
  // The bytes that a rank sent and received together.
  EXPECT_LT(outcome.bytes_moved[0], all + little) << "to the first receiver";
  EXPECT_LT(outcome.bytes_moved[1], 2 * all + little) << "received and passed on";
  EXPECT_LT(outcome.bytes_moved[2], all + little) << "received";
  EXPECT_LT(outcome.bytes_moved[3], little);
  EXPECT_LT(outcome.bytes_moved[4], little);
}

TEST(StatePieces, ThatAreThereAlreadyAreNotSentAgain) {
  std::mt19937 random(4);
  RingOfThreads ranks(2);
  const Memory state{random_bytes(1000000, random), random_bytes(1000000, random), random_bytes(1000000, random)};
  std::vector<Memory> memories{state, state};
  memories[1][2].assign(1000000, std::byte{0});  // a copy that broke off before its last piece
  const Outcome outcome = copy_among(ranks, memories, {true, false});
  ASSERT_TRUE(outcome.copies[1]);
  EXPECT_EQ(outcome.copies[1]->bytes, 1000000);
  EXPECT_EQ(outcome.copies[1]->had_before, 2000000);
  EXPECT_LT(outcome.bytes_moved[1], 1100000U);
  EXPECT_EQ(memories[1], state);
}

TEST(StatePieces, ThatArriveAlteredAreFetchedFromAnotherHolder) {
  std::mt19937 random(5);
  RingOfThreads ranks(4);
  const Memory state{random_bytes(500000, random), random_bytes(70000, random), random_bytes(300000, random)};
  std::vector<Memory> memories(4, state);
  memories[1][1][12345] ^= std::byte{4};  // its memory has gone bad since it was hashed, and it feeds ranks 2 and 3
  memories[2] = memories[3] = {Piece(500000), Piece(70000), Piece(300000)};
  const Outcome outcome = copy_among(ranks, memories, {true, true, false, false});
  for (size_t rank = 0; rank < 4; ++rank) {
    ASSERT_TRUE(outcome.copies[rank]) << outcome.copies[rank].error().reason;
    EXPECT_EQ(outcome.copies[rank]->fetched_again, std::vector<size_t>{1});
    EXPECT_EQ(memories[rank], state);
  }
}

TEST(StatePieces, AreManyOperationsSoThatIdleHoldersHearOfThem) {
  std::mt19937 random(7);
  RingOfThreads ranks(3);
  const Memory state{random_bytes(9 << 20, random), random_bytes(9 << 20, random), random_bytes(9 << 20, random)};
  std::vector<Memory> memories(3, state);
  memories[2] = {Piece(9 << 20), Piece(9 << 20), Piece(9 << 20)};
  ++ranks.options().generation;
  std::atomic<int> told = 0;
  ranks.run([&](Communicator& ring) {
    // Rank 0 has nothing to carry: it must not wait for a whole state's time without a byte.
    const auto me = static_cast<size_t>(ring.rank());
    std::vector<std::span<std::byte>> pieces(memories[me].begin(), memories[me].end());
    const uint64_t before = ring.bytes_moved();
    ASSERT_TRUE(copy_pieces(ring, pieces, {true, true, false}));
    if (me == 0) told = static_cast<int>((ring.bytes_moved() - before) / 40);  // headers
  });
  EXPECT_GE(told, 3);
  EXPECT_EQ(memories[2], state);
}

TEST(StatePieces, OfOtherSizesAreRefused) {
  std::mt19937 random(6);
  RingOfThreads ranks(2);
  ranks.options().timeout = std::chrono::milliseconds(2000);  // for rank 0, whose neighbour says no more
  std::vector<Memory> memories{{random_bytes(1000, random), random_bytes(1000, random)}, {Piece(1000)}};
  const Outcome outcome = copy_among(ranks, memories, {true, false});
  ASSERT_FALSE(outcome.copies[1]);
  EXPECT_EQ(outcome.copies[1].error().reason, "rank 0 has a state of 2 pieces, here it has 1");
}

}  // namespace
}  // namespace holdfast::worker
