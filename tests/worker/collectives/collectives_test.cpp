// What the collectives compute, over real connections.
#include <gtest/gtest.h>

#include <bit>
#include <random>

#include "tests/worker/collectives/ring_of_threads.h"

namespace holdfast::worker {
namespace {

class Collectives : public testing::TestWithParam<int> {
 protected:
  int world() const { return GetParam(); }
  RingOfThreads ranks{GetParam()};
};

INSTANTIATE_TEST_SUITE_P(World, Collectives, testing::Values(1, 2, 3, 4, 7));

int32_t value_of(int rank, size_t index) {
  return static_cast<int32_t>(0x7fff0000u + index * 2654435761u * static_cast<uint32_t>(rank + 1));
}

int32_t wrapped_sum(int world, size_t index) {
  uint32_t sum = 0;
  for (int rank = 0; rank < world; ++rank) sum += static_cast<uint32_t>(value_of(rank, index));
  return static_cast<int32_t>(sum);
}

void expect_int32_sums(Communicator& ring, size_t size) {
  std::vector<int32_t> buffer(size);
  for (size_t i = 0; i < size; ++i) buffer[i] = value_of(ring.rank(), i);
  const auto summed = sum_in_place(ring, buffer);
  ASSERT_TRUE(summed) << summed.error().detail;
  for (size_t i = 0; i < size; ++i)
    ASSERT_EQ(buffer[i], wrapped_sum(ring.world_size(), i)) << "element " << i << " of " << size;
}

TEST_P(Collectives, SumInt32WithWrapAroundForEverySmallSize) {
  ranks.run([&](Communicator& ring) {
    const size_t n = static_cast<size_t>(world());
    for (size_t size : {size_t{0}, size_t{1}, size_t{2}, n - 1, n, n + 1, 3 * n + 2}) expect_int32_sums(ring, size);
  });
}

TEST_P(Collectives, SumInt32OfAnySizeWithAnyChunkSize) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  for (int trial = 0; trial < 3; ++trial) {
    ranks.options().chunk_bytes = size_t{1} << (6 + random() % 16);
    ranks.options().chunk_bytes += random() % 64;
    ranks.options().checksums_within_node = trial % 2 == 1;
    ranks.options().generation++;
    const size_t size = trial == 0 ? 1000003 : random() % 300000;
    ranks.run([&](Communicator& ring) { expect_int32_sums(ring, size); });
  }
}

TEST_P(Collectives, SumFloatsToTheSameBitsOnEveryRank) {
  std::vector<std::vector<float>> results(static_cast<size_t>(world()));
  ranks.run([&](Communicator& ring) {
    std::vector<float>& buffer = results[static_cast<size_t>(ring.rank())];
    std::mt19937 random(static_cast<unsigned>(ring.rank()));
    std::normal_distribution<float> normal;
    for (int i = 0; i < 100003; ++i) buffer.push_back(normal(random));
    const auto summed = sum_in_place(ring, buffer);
    ASSERT_TRUE(summed) << summed.error().detail;
  });
  const auto bits = [](const std::vector<float>& values) {
    std::vector<uint32_t> words;
    for (float value : values) words.push_back(std::bit_cast<uint32_t>(value));
    return words;
  };
  for (const auto& result : results) EXPECT_EQ(bits(result), bits(results.front()));
}

TEST_P(Collectives, FollowEachOtherWithoutMixingUp) {
  ranks.run([&](Communicator& ring) {
    for (int i = 0; i < 300; ++i) {
      std::vector<int32_t> buffer(static_cast<size_t>(i % 17), i + ring.rank());
      const auto summed = sum_in_place(ring, buffer);
      ASSERT_TRUE(summed) << summed.error().detail;
      const int32_t expected = world() * i + world() * (world() - 1) / 2;
      for (int32_t value : buffer) ASSERT_EQ(value, expected);
    }
  });
}

TEST_P(Collectives, GatherBlocksOfDifferentSizes) {
  ranks.run([&](Communicator& ring) {
    const auto block = [](int rank) {  // rank 1 has nothing to say
      return std::vector<std::byte>(static_cast<size_t>(rank == 1 ? 0 : 70000 * rank + 3), static_cast<std::byte>(rank + 1));
    };
    const auto gathered = ring.all_gather(block(ring.rank()));
    ASSERT_TRUE(gathered) << gathered.error().detail;
    ASSERT_EQ(gathered->size(), static_cast<size_t>(world()));
    for (int rank = 0; rank < world(); ++rank)
      EXPECT_EQ((*gathered)[static_cast<size_t>(rank)], block(rank)) << "rank " << rank;
  });
}

TEST_P(Collectives, BroadcastFromEachRoot) {
  ranks.run([&](Communicator& ring) {
    for (int root = 0; root < world(); ++root) {
      std::vector<std::byte> buffer(static_cast<size_t>(root == 0 ? 0 : 500003), static_cast<std::byte>(ring.rank()));
      const auto sent = ring.broadcast(buffer, root);
      ASSERT_TRUE(sent) << sent.error().detail;
      EXPECT_EQ(buffer, std::vector<std::byte>(buffer.size(), static_cast<std::byte>(root)));
    }
  });
}

TEST_P(Collectives, CountTheBytesThatMove) {
  ranks.run([&](Communicator& ring) {
    std::vector<int32_t> buffer(static_cast<size_t>(world()) * 1000);
    ASSERT_TRUE(sum_in_place(ring, buffer));
    const size_t each_way = 2 * 4 * 1000 * static_cast<size_t>(world() - 1);
    EXPECT_GE(ring.bytes_moved(), 2 * each_way);
    EXPECT_LE(ring.bytes_moved(), 2 * each_way + 200);
  });
}

// Ranks end at different times; one that is through may be gone while others finish.
TEST_P(Collectives, LetARankLeaveAfterItsLastOperation) {
  for (int64_t generation = 1; generation <= 20; ++generation) {
    ranks.options().generation = generation;
    ranks.each_rank([&](int rank) {
      auto ring = Communicator::form(ranks.transport(rank), ranks.options_of(rank));
      ASSERT_TRUE(ring) << ring.error().detail;
      std::vector<int32_t> buffer(20000, 1);
      const auto summed = sum_in_place(**ring, buffer);
      ASSERT_TRUE(summed) << summed.error().detail;
      const auto gathered = (*ring)->all_gather(std::as_bytes(std::span(buffer)));
      ASSERT_TRUE(gathered) << gathered.error().detail;
    });
  }
}

}  // namespace
}  // namespace holdfast::worker
