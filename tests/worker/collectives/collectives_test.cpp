// The results of the collectives, over real connections.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/worker/collectives/ring_of_threads.h"

namespace holdfast::worker {
namespace {

class Collectives : public testing::TestWithParam<int> {
 protected:
  int world() const { return GetParam(); }
  RingOfThreads ranks{GetParam()};
};

INSTANTIATE_TEST_SUITE_P(World, Collectives, testing::Values(1, 2, 3, 4, 5, 7));

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

TEST_P(Collectives, SumInt16WithWrapAround) {
  ranks.run([&](Communicator& ring) {
    for (const size_t size : {0, 1, 2, 3, 5, 70001}) {
      std::vector<int16_t> buffer(size);
      for (size_t i = 0; i < size; ++i) buffer[i] = static_cast<int16_t>(value_of(ring.rank(), i));
      const auto summed = sum_in_place(ring, buffer);
      ASSERT_TRUE(summed) << summed.error().detail;
      for (size_t i = 0; i < size; ++i) ASSERT_EQ(buffer[i], static_cast<int16_t>(wrapped_sum(ring.world_size(), i))) << i;
    }
  });
}

float drawn(int rank, size_t index) {
  std::minstd_rand random(static_cast<unsigned>(index) * 16 + static_cast<unsigned>(rank) + 1);
  random.discard(3);
  return static_cast<float>(random() % 20001) / 10000 - 1;
}

// Sums as `T` have the same bits on all ranks, and are at most `roundings` of `unit` away from the exact sum.
template <typename T>
void expect_equal_and_near(RingOfThreads& ranks, T (*from_float)(float), float (*as_float)(T), double unit) {
  const size_t size = 30011;
  const auto world = static_cast<size_t>(ranks.world_size());
  std::vector<std::vector<T>> results(world);
  ranks.run([&](Communicator& ring) {
    std::vector<T>& buffer = results[static_cast<size_t>(ring.rank())];
    for (size_t i = 0; i < size; ++i) buffer.push_back(from_float(drawn(ring.rank(), i)));
    const auto summed = sum_in_place(ring, buffer);
    ASSERT_TRUE(summed) << summed.error().detail;
  });
  for (const auto& result : results)
    ASSERT_TRUE(std::ranges::equal(std::as_bytes(std::span(result)), std::as_bytes(std::span(results[0]))));
  for (size_t i = 0; i < size; ++i) {
    double exact = 0;
    for (size_t rank = 0; rank < world; ++rank) exact += static_cast<double>(drawn(static_cast<int>(rank), i));
    // Each rank's number is rounded, and each addition; no partial sum is larger than the number of ranks.
    const auto bound = static_cast<double>(world) * unit * static_cast<double>(2 * world);
    ASSERT_NEAR(static_cast<double>(as_float(results[0][i])), exact, bound) << i;
  }
}

TEST_P(Collectives, SumFloatsToTheSameBitsOnEveryRank) {
  const auto itself = [](float value) { return value; };
  expect_equal_and_near<float>(ranks, itself, itself, 0x1p-24);
}

TEST_P(Collectives, SumBFloat16ToTheSameBitsOnEveryRank) {
  expect_equal_and_near<BFloat16>(ranks, to_bfloat16, to_float, 0x1p-9);
}

TEST_P(Collectives, SumFloat16ToTheSameBitsOnEveryRank) {
  expect_equal_and_near<Float16>(ranks, to_float16, to_float, 0x1p-12);
}

TEST_P(Collectives, BringThePartsOfASumToTheirOwners) {
  constexpr size_t kSize = 300007, kPart = 20011;
  std::vector<SumPart> parts;
  const auto owners_of_part = [&](size_t part) {
    std::vector<int32_t> owners{static_cast<int32_t>(part % static_cast<size_t>(world()))};
    if (part % 3 != 0 && world() > 1) owners.push_back((owners[0] + 1 + static_cast<int32_t>(part) % (world() - 1)) % world());
    return owners;
  };
  for (size_t at = 0; at < kSize; at += kPart)
    parts.push_back(part_for(at, std::min(kPart, kSize - at), owners_of_part(parts.size()), world()));
  ranks.run([&](Communicator& ring) {
    std::vector<int32_t> mine(kSize), sum(kSize);
    for (size_t i = 0; i < kSize; ++i) mine[i] = value_of(ring.rank(), i);
    const auto summed = ring.reduce_scatter_sum(std::span<const int32_t>(mine), sum, parts);
    ASSERT_TRUE(summed) << summed.error().detail;
    for (size_t part = 0; part < parts.size(); ++part) {
      const auto owners = owners_of_part(part);
      if (std::ranges::find(owners, ring.rank()) == owners.end()) continue;
      for (size_t i = parts[part].first; i < parts[part].first + parts[part].count; ++i)
        ASSERT_EQ(sum[i], wrapped_sum(world(), i)) << "element " << i;
    }
  });
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

TEST_P(Collectives, GatherIntoBlocksWhoseSizesAllKnow) {
  ranks.run([&](Communicator& ring) {
    std::vector<std::vector<std::byte>> gathered;
    std::vector<std::span<std::byte>> blocks;
    for (int rank = 0; rank < world(); ++rank) gathered.emplace_back(static_cast<size_t>(rank * 50000));
    std::ranges::fill(gathered[static_cast<size_t>(ring.rank())], static_cast<std::byte>(ring.rank()));
    for (auto& block : gathered) blocks.emplace_back(block);
    const auto done = ring.all_gather_into(blocks);
    ASSERT_TRUE(done) << done.error().detail;
    for (int rank = 0; rank < world(); ++rank) {
      EXPECT_EQ(gathered[static_cast<size_t>(rank)],
                std::vector<std::byte>(static_cast<size_t>(rank * 50000), static_cast<std::byte>(rank)));
    }
  });
}

TEST_P(Collectives, BringEveryBlockOfAnAllToAllToItsRank) {
  const auto block = [](int from, int to) {
    return std::vector<std::byte>(static_cast<size_t>(to * 60000), static_cast<std::byte>(16 * from + to));
  };
  ranks.run([&](Communicator& ring) {
    for (int trial = 0; trial < 3; ++trial) {
      std::vector<std::vector<std::byte>> has, gets(static_cast<size_t>(world()), block(99, ring.rank()));
      for (int to = 0; to < world(); ++to) has.push_back(block(ring.rank(), to));
      const std::vector<std::span<const std::byte>> outgoing(has.begin(), has.end());
      const std::vector<std::span<std::byte>> incoming(gets.begin(), gets.end());
      const auto done = ring.all_to_all(outgoing, incoming);
      ASSERT_TRUE(done) << done.error().detail;
      for (int from = 0; from < world(); ++from) EXPECT_EQ(gets[static_cast<size_t>(from)], block(from, ring.rank())) << from;
    }
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
