// The schedules without a network: all ranks' streams are replayed in memory, in every order that their dependencies allow.
#include "worker/collectives/schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <functional>
#include <numeric>
#include <random>

#include "worker/collectives/half_floats.h"
#include "worker/collectives/reduce.h"

namespace holdfast::worker {
namespace {

using Chunk = std::vector<std::byte>;

// Moves chunks between the ranks' schedules until nothing can go on; whether all of them were.
bool replay(const std::vector<Schedule>& ranks, std::mt19937& random, Element element = Element::kInt32) {
  const size_t n = ranks.size();
  std::vector<std::deque<Chunk>> wires(n);  // to rank i
  std::vector<size_t> sent(n), received(n);
  for (;;) {
    std::vector<std::function<void()>> possible;
    for (size_t i = 0; i < n; ++i) {
      if (sent[i] < ranks[i].outgoing.size() && received[i] >= ranks[i].outgoing[sent[i]].after) {
        possible.push_back([&, i] {
          const auto bytes = ranks[i].outgoing[sent[i]++].bytes;
          wires[(i + 1) % n].emplace_back(bytes.begin(), bytes.end());
        });
      }
      if (!wires[i].empty()) {
        possible.push_back([&, i] {
          const Chunk chunk = wires[i].front();
          wires[i].pop_front();
          const IncomingChunk& incoming = ranks[i].incoming[received[i]++];
          ASSERT_EQ(chunk.size(), incoming.bytes.size());
          std::copy(chunk.begin(), chunk.end(), incoming.bytes.begin());
          if (incoming.addend != nullptr) add_elements(incoming.bytes, std::span(incoming.addend, chunk.size()), element);
        });
      }
    }
    if (possible.empty()) break;
    possible[random() % possible.size()]();
  }
  for (size_t i = 0; i < n; ++i) {
    if (sent[i] != ranks[i].outgoing.size() || received[i] != ranks[i].incoming.size()) return false;
  }
  return true;
}

// Numbers that ranks bring, with their sums, and memory for the results.
struct RandomSum {
  std::vector<std::vector<int32_t>> inputs, results;  // by rank
  std::vector<int32_t> sums;

  RandomSum(int world, size_t elements, std::mt19937& random) : inputs(static_cast<size_t>(world)), sums(elements) {
    for (auto& brought : inputs) {
      for (size_t i = 0; i < elements; ++i) brought.push_back(static_cast<int32_t>(random() % 1000));
      for (size_t i = 0; i < elements; ++i) sums[i] += brought[i];
      results.emplace_back(elements);
    }
  }
  std::span<const std::byte> mine(int rank) const { return std::as_bytes(std::span(inputs[static_cast<size_t>(rank)])); }
  std::span<std::byte> result(int rank) { return std::as_writable_bytes(std::span(results[static_cast<size_t>(rank)])); }
};

TEST(AllReduceSchedule, SumsEveryElementOnEveryRankInAnyOrderOfEvents) {
  const unsigned seed = std::random_device{}();
  std::mt19937 random(seed);
  for (int world : {2, 3, 4, 7}) {
    for (int trial = 0; trial < 40; ++trial) {
      const size_t elements = random() % (trial < 20 ? 20 : 3000), chunk = 1 + random() % 600;
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", world " << world << ", " << elements << " elements, chunk "
                                      << chunk);
      RandomSum all(world, elements, random);
      std::vector<Schedule> schedules;
      for (int rank = 0; rank < world; ++rank)
        schedules.push_back(all_reduce_schedule(rank, world, all.mine(rank), all.result(rank), Element::kInt32, chunk));
      const auto before = all.inputs;
      ASSERT_TRUE(replay(schedules, random));
      for (const auto& result : all.results) ASSERT_EQ(result, all.sums);
      ASSERT_EQ(all.inputs, before) << "what a rank brought it still has";
    }
  }
}

TEST(AllReduceSchedule, SendsTwiceTheBufferTimesNMinusOneOverN) {
  std::vector<int32_t> mine(7 * 10000), sum(mine.size());
  for (int rank = 0; rank < 7; ++rank) {
    const Schedule schedule = all_reduce_schedule(rank, 7, std::as_bytes(std::span(mine)),
                                                  std::as_writable_bytes(std::span(sum)), Element::kInt32, 4096);
    size_t bytes = 0;
    for (const auto& chunk : schedule.outgoing) bytes += chunk.bytes.size();
    EXPECT_EQ(bytes, 2 * 6 * sum.size() * 4 / 7);
  }
}

TEST(AllReduceSchedule, CutsElementsOf16BitsOnlyBetweenThem) {
  std::mt19937 random(3);
  for (const size_t elements : {1, 2, 3, 7, 1001}) {
    for (const size_t chunk : {1, 2, 3, 5, 100}) {
      std::vector<std::vector<int16_t>> inputs(3), results(3, std::vector<int16_t>(elements));
      std::vector<Schedule> schedules;
      for (size_t rank = 0; rank < 3; ++rank) {
        for (size_t i = 0; i < elements; ++i) inputs[rank].push_back(static_cast<int16_t>(200 * rank + i));
        schedules.push_back(all_reduce_schedule(static_cast<int>(rank), 3, std::as_bytes(std::span(inputs[rank])),
                                                std::as_writable_bytes(std::span(results[rank])), Element::kInt16, chunk));
      }
      ASSERT_TRUE(replay(schedules, random, Element::kInt16));
      for (const auto& result : results) {
        for (size_t i = 0; i < elements; ++i) ASSERT_EQ(result[i], static_cast<int16_t>(600 + 3 * i)) << chunk;
      }
    }
  }
}

TEST(AllReduceSchedule, ForwardsOnlyWhatWasStored) {
  std::vector<int32_t> mine(5000), sum(mine.size());
  const Schedule schedule =
      all_reduce_schedule(1, 4, std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(sum)), Element::kInt32, 1000);
  for (const auto& chunk : schedule.outgoing) {
    if (chunk.after == 0) continue;
    const IncomingChunk& source = schedule.incoming[chunk.after - 1];
    EXPECT_EQ(chunk.bytes.data(), source.bytes.data());
    EXPECT_EQ(chunk.bytes.size(), source.bytes.size());
    EXPECT_EQ(chunk.forwarded, source.addend == nullptr);
  }
}

TEST(PartFor, EndsAtTheOwnerWhomTheOthersFollowSoonest) {
  EXPECT_EQ(part_for(3, 4, std::vector<int32_t>{2}, 4), (SumPart{3, 4, 2, 0}));
  EXPECT_EQ(part_for(0, 9, std::vector<int32_t>{1, 2}, 4), (SumPart{0, 9, 1, 1}));
  EXPECT_EQ(part_for(0, 9, std::vector<int32_t>{0, 3}, 4), (SumPart{0, 9, 3, 1})) << "round the ring's end";
  EXPECT_EQ(part_for(0, 9, std::vector<int32_t>{2, 0}, 4), (SumPart{0, 9, 2, 2})) << "alike: the first";
  EXPECT_EQ(part_for(0, 9, std::vector<int32_t>{0, 1, 5}, 7), (SumPart{0, 9, 5, 3}));
  EXPECT_EQ(part_for(0, 9, std::vector<int32_t>{0, 1, 2}, 3), (SumPart{0, 9, 0, 2}));
}

// A buffer cut into parts with random owners; some of it is in no part.
std::vector<std::vector<int32_t>> random_owners(size_t parts, int world, std::mt19937& random) {
  std::vector<std::vector<int32_t>> owners(parts);
  for (auto& own : owners) {
    std::vector<int32_t> ranks(static_cast<size_t>(world));
    std::iota(ranks.begin(), ranks.end(), 0);
    std::shuffle(ranks.begin(), ranks.end(), random);
    ranks.resize(1 + random() % ranks.size());
    own = ranks;
  }
  return owners;
}

TEST(ReduceScatterSchedule, SumsEachPartAtItsOwnersInAnyOrderOfEvents) {
  const unsigned seed = std::random_device{}();
  std::mt19937 random(seed);
  for (int world : {2, 3, 4, 7}) {
    for (int trial = 0; trial < 40; ++trial) {
      const size_t parts = random() % 12, chunk = 1 + random() % 900;
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", world " << world << ", " << parts << " parts, chunk " << chunk);
      const auto owners = random_owners(parts, world, random);
      std::vector<SumPart> cut;
      size_t elements = 0;
      for (const auto& own : owners) {
        const size_t count = random() % (trial < 20 ? 5 : 700);
        cut.push_back(part_for(elements, count, own, world));
        elements += count + random() % 3;
      }
      RandomSum all(world, elements, random);
      std::vector<Schedule> schedules;
      for (int rank = 0; rank < world; ++rank) {
        schedules.push_back(
            reduce_scatter_schedule(rank, world, all.mine(rank), all.result(rank), Element::kInt32, cut, chunk));
        require_sound(schedules.back());
      }
      const auto before = all.inputs;
      ASSERT_TRUE(replay(schedules, random));
      for (size_t part = 0; part < parts; ++part) {
        for (const int32_t owner : owners[part]) {
          for (size_t i = cut[part].first; i < cut[part].first + cut[part].count; ++i)
            ASSERT_EQ(all.results[static_cast<size_t>(owner)][i], all.sums[i]) << "part " << part << " at rank " << owner;
        }
      }
      ASSERT_EQ(all.inputs, before) << "what a rank brought it still has";
    }
  }
}

// Bytes on each link, of 4 ranks and parts of 1,000 bytes.
std::vector<size_t> bytes_on_links(const std::vector<SumPart>& parts) {
  std::vector<std::byte> mine(1000 * parts.size()), sum(mine.size());
  std::vector<size_t> links;
  for (int rank = 0; rank < 4; ++rank) {
    size_t bytes = 0;
    for (const auto& chunk : reduce_scatter_schedule(rank, 4, mine, sum, Element::kByte, parts, 256).outgoing)
      bytes += chunk.bytes.size();
    links.push_back(bytes);
  }
  return links;
}

TEST(ReduceScatterSchedule, SendsAPartOverAllLinksButOneAndOnwardsToItsOtherOwners) {
  EXPECT_EQ(bytes_on_links({{0, 1000, 2, 0}}), (std::vector<size_t>{1000, 1000, 0, 1000}));
  EXPECT_EQ(bytes_on_links({{0, 1000, 2, 1}}), (std::vector<size_t>{1000, 1000, 1000, 1000}));
  EXPECT_EQ(bytes_on_links({{0, 1000, 2, 2}}), (std::vector<size_t>{1000, 1000, 1000, 2000}));
  EXPECT_EQ(bytes_on_links({{0, 1000, 0, 0}, {1000, 1000, 1, 0}, {2000, 1000, 2, 0}, {3000, 1000, 3, 0}}),
            (std::vector<size_t>{3000, 3000, 3000, 3000}))
      << "half of what an all-reduce sends";
}

// With one part for each rank all links are busy from the beginning: each rank has a chunk to send before any comes.
TEST(ReduceScatterSchedule, BeginsOnAllLinks) {
  const std::vector<SumPart> parts{{0, 1000, 0, 1}, {1000, 1000, 1, 1}, {2000, 1000, 2, 1}, {3000, 1000, 3, 1}};
  std::vector<std::byte> mine(4000), sum(mine.size());
  for (int rank = 0; rank < 4; ++rank) {
    const auto schedule = reduce_scatter_schedule(rank, 4, mine, sum, Element::kByte, parts, 256);
    ASSERT_FALSE(schedule.outgoing.empty());
    EXPECT_EQ(schedule.outgoing.front().after, 0U);
  }
}

TEST(AllGatherSchedule, BringsEveryBlockToEveryRank) {
  const unsigned seed = std::random_device{}();
  std::mt19937 random(seed);
  for (size_t world : {2, 3, 7}) {
    SCOPED_TRACE(testing::Message() << "seed " << seed << ", world " << world);
    std::vector<Chunk> truth(world);
    for (auto& block : truth) {
      block.resize(random() % 3 == 0 ? 0 : random() % 5000);
      for (auto& byte : block) byte = static_cast<std::byte>(random());
    }
    std::vector<std::vector<Chunk>> held(world);
    std::vector<Schedule> schedules;
    for (size_t rank = 0; rank < world; ++rank) {
      std::vector<std::span<std::byte>> blocks;
      for (size_t i = 0; i < world; ++i) held[rank].push_back(i == rank ? truth[i] : Chunk(truth[i].size()));
      for (auto& block : held[rank]) blocks.emplace_back(block);
      schedules.push_back(all_gather_schedule(static_cast<int>(rank), blocks, 512));
    }
    ASSERT_TRUE(replay(schedules, random));
    for (const auto& blocks : held) EXPECT_EQ(blocks, truth);
  }
}

// The block that rank `from` has for rank `to`: blocks for one rank are equally long, and some ranks get nothing.
Chunk block_for(size_t from, size_t to) {
  return Chunk(to == 2 ? 0 : 1000 + 700 * to, static_cast<std::byte>(16 * from + to + 1));
}

TEST(AllToAllSchedule, BringsEveryBlockToItsRank) {
  const unsigned seed = std::random_device{}();
  std::mt19937 random(seed);
  for (size_t world = 1; world <= 5; ++world) {
    SCOPED_TRACE(testing::Message() << "seed " << seed << ", world " << world);
    std::vector<std::vector<Chunk>> has(world), gets(world);
    std::vector<Chunk> transit(world);
    std::vector<Schedule> schedules;
    for (size_t rank = 0; rank < world; ++rank) {
      std::vector<std::span<const std::byte>> outgoing;
      std::vector<std::span<std::byte>> incoming;
      for (size_t other = 0; other < world; ++other) has[rank].push_back(block_for(rank, other));
      gets[rank].assign(world, Chunk(has[rank][rank].size()));
      for (const auto& block : has[rank]) outgoing.emplace_back(block);
      for (auto& block : gets[rank]) incoming.emplace_back(block);
      schedules.push_back(all_to_all_schedule(static_cast<int>(rank), outgoing, incoming, transit[rank], 512));
    }
    ASSERT_TRUE(replay(schedules, random));
    for (size_t rank = 0; rank < world; ++rank) {
      for (size_t from = 0; from < world; ++from) {
        if (from == rank) continue;
        EXPECT_EQ(gets[rank][from], block_for(from, rank)) << from << " to " << rank;
      }
    }
  }
}

TEST(AllToAllSchedule, SendsHalfOfNTimesNMinusOneBlocks) {
  const size_t world = 5, size = 1000;
  const Chunk block(size);
  Chunk buffer(size), transit;
  const std::vector<std::span<const std::byte>> outgoing(world, block);
  const std::vector<std::span<std::byte>> incoming(world, buffer);
  const Schedule schedule = all_to_all_schedule(3, outgoing, incoming, transit, 300);
  size_t bytes = 0;
  for (const auto& chunk : schedule.outgoing) bytes += chunk.bytes.size();
  EXPECT_EQ(bytes, size * world * (world - 1) / 2);
  EXPECT_EQ(transit.size(), size * (world - 1) * (world - 2) / 2) << "what is passed on";
}

TEST(BroadcastSchedule, BringsTheRootsBytesToEveryRank) {
  std::mt19937 random(1);
  const int world = 5;
  for (int root = 0; root < world; ++root) {
    std::vector<Chunk> buffers(world, Chunk(10001));
    std::vector<Schedule> schedules;
    std::ranges::fill(buffers[static_cast<size_t>(root)], std::byte{42});
    for (int rank = 0; rank < world; ++rank) {
      schedules.push_back(broadcast_schedule(rank, world, buffers[static_cast<size_t>(rank)], root, 1000));
    }
    ASSERT_TRUE(replay(schedules, random));
    for (const auto& buffer : buffers) EXPECT_EQ(buffer, buffers[static_cast<size_t>(root)]);
  }
}

TEST(AddElements, WrapsAroundInInt32) {
  std::vector<int32_t> target{INT32_MAX, INT32_MIN, -1}, source{1, -1, 1};
  add_elements(std::as_writable_bytes(std::span(target)), std::as_bytes(std::span(source)), Element::kInt32);
  EXPECT_EQ(target, (std::vector<int32_t>{INT32_MIN, INT32_MAX, 0}));
}

TEST(AddElements, WrapsAroundInInt16) {
  std::vector<int16_t> target{INT16_MAX, INT16_MIN, -1}, source{1, -1, 1};
  add_elements(std::as_writable_bytes(std::span(target)), std::as_bytes(std::span(source)), Element::kInt16);
  EXPECT_EQ(target, (std::vector<int16_t>{INT16_MIN, INT16_MAX, 0}));
}

// Both are widened, added, and rounded once: to nearest, ties to even.
template <typename Half>
void expect_sum(Half (*to_half)(float), float a, float b, float sum, Element element) {
  std::vector<Half> target(37, to_half(a)), source(37, to_half(b));
  add_elements(std::as_writable_bytes(std::span(target)), std::as_bytes(std::span(source)), element);
  for (const Half value : target) ASSERT_EQ(to_float(value), sum) << a << " + " << b;
}

TEST(AddElements, RoundsSumsOf16BitFloatsToNearestAndTiesToEven) {
  expect_sum(to_bfloat16, 256.0F, 1.0F, 256.0F, Element::kBFloat16);
  expect_sum(to_bfloat16, 258.0F, 1.0F, 260.0F, Element::kBFloat16);
  expect_sum(to_bfloat16, 256.0F, 1.0078125F, 258.0F, Element::kBFloat16);
  expect_sum(to_float16, 2048.0F, 1.0F, 2048.0F, Element::kFloat16);
  expect_sum(to_float16, 2050.0F, 1.0F, 2052.0F, Element::kFloat16);
  expect_sum(to_float16, 2048.0F, 1.0009765625F, 2050.0F, Element::kFloat16);
  expect_sum(to_float16, 65504.0F, 16.0F, INFINITY, Element::kFloat16);
}

TEST(ScheduleDeathTest, ThatForwardsAChunkWhichNeverComesEndsTheProcess) {
  std::vector<std::byte> memory(8);
  Schedule schedule;
  schedule.incoming.push_back({std::span(memory).first(4), nullptr});
  schedule.outgoing.push_back({std::span(memory).first(4), 1, true});
  require_sound(schedule);
  schedule.outgoing.push_back({std::span(memory).last(4), 2, false});
  EXPECT_DEATH(require_sound(schedule), "broken invariant: outgoing chunk 1 waits for incoming chunk 2 of only 1");
  schedule.outgoing.back() = {std::span(memory).last(4), 1, true};
  EXPECT_DEATH(require_sound(schedule), "outgoing chunk 1 of 4 bytes is not the incoming chunk 1 that it forwards");
}

}  // namespace
}  // namespace holdfast::worker
