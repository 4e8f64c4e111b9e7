// The schedules without a network: all ranks' streams are replayed in memory, in every order that their dependencies allow.
#include "worker/collectives/schedule.h"

#include <gtest/gtest.h>

#include <deque>
#include <numeric>
#include <random>

#include "worker/collectives/reduce.h"

namespace holdfast::worker {
namespace {

using Chunk = std::vector<std::byte>;

// Moves chunks between the ranks' schedules until nothing can go on; whether all of them were.
bool replay(const std::vector<Schedule>& ranks, std::mt19937& random) {
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
          if (incoming.addend != nullptr)
            add_elements(incoming.bytes, std::span(incoming.addend, chunk.size()), Element::kInt32);
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

TEST(AllReduceSchedule, SumsEveryElementOnEveryRankInAnyOrderOfEvents) {
  const unsigned seed = std::random_device{}();
  std::mt19937 random(seed);
  for (int world : {2, 3, 4, 7}) {
    for (int trial = 0; trial < 40; ++trial) {
      const size_t elements = random() % (trial < 20 ? 20 : 3000), chunk = 1 + random() % 600;
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", world " << world << ", " << elements << " elements, chunk "
                                      << chunk);
      std::vector<std::vector<int32_t>> inputs(static_cast<size_t>(world)), results(inputs.size());
      std::vector<int32_t> sums(elements);
      std::vector<Schedule> schedules;
      for (int rank = 0; rank < world; ++rank) {
        auto& mine = inputs[static_cast<size_t>(rank)];
        auto& result = results[static_cast<size_t>(rank)];
        for (size_t i = 0; i < elements; ++i) mine.push_back(static_cast<int32_t>(random() % 1000));
        for (size_t i = 0; i < elements; ++i) sums[i] += mine[i];
        result.resize(elements);
        schedules.push_back(
            all_reduce_schedule(rank, world, std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(result)), chunk));
      }
      const auto before = inputs;
      ASSERT_TRUE(replay(schedules, random));
      for (const auto& result : results) ASSERT_EQ(result, sums);
      ASSERT_EQ(inputs, before) << "what a rank brought it still has";
    }
  }
}

TEST(AllReduceSchedule, SendsTwiceTheBufferTimesNMinusOneOverN) {
  std::vector<int32_t> mine(7 * 10000), sum(mine.size());
  for (int rank = 0; rank < 7; ++rank) {
    const Schedule schedule =
        all_reduce_schedule(rank, 7, std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(sum)), 4096);
    size_t bytes = 0;
    for (const auto& chunk : schedule.outgoing) bytes += chunk.bytes.size();
    EXPECT_EQ(bytes, 2 * 6 * sum.size() * 4 / 7);
  }
}

TEST(AllReduceSchedule, ForwardsOnlyWhatWasStored) {
  std::vector<int32_t> mine(5000), sum(mine.size());
  const Schedule schedule =
      all_reduce_schedule(1, 4, std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(sum)), 1000);
  for (const auto& chunk : schedule.outgoing) {
    if (chunk.after == 0) continue;
    const IncomingChunk& source = schedule.incoming[chunk.after - 1];
    EXPECT_EQ(chunk.bytes.data(), source.bytes.data());
    EXPECT_EQ(chunk.bytes.size(), source.bytes.size());
    EXPECT_EQ(chunk.forwarded, source.addend == nullptr);
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

}  // namespace
}  // namespace holdfast::worker
