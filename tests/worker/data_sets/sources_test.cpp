// Which chunk is got from where, told step by step.
#include "worker/data_sets/sources.h"

#include <gtest/gtest.h>

#include <set>

namespace holdfast::worker {
namespace {

using std::chrono::milliseconds;

class Sources : public ::testing::Test {
 protected:
  static constexpr int64_t kChunks = 8;

  void given(const std::vector<int64_t>& chunks) { sources.take({.holders = holders, .take = chunks, .key = "k"}); }
  void worker(const std::string& name, const std::string& has) {
    holders.push_back({name, name + ":1", has, name + "'s key"});
    sources.take({.holders = holders, .take = {}, .key = "k"});
  }
  std::optional<ChunkSources::Task> next() { return sources.next(have, now); }

  ChunkSources sources{kChunks, 0};
  std::vector<rendezvous::Holder> holders;
  std::vector<bool> have = std::vector<bool>(kChunks);
  ChunkSources::Time now{std::chrono::seconds(100)};
};

TEST_F(Sources, NothingIsGotFromTheServiceButWhatItGave) {
  EXPECT_FALSE(next());
  given({3});
  const auto task = next();
  ASSERT_TRUE(task);
  EXPECT_EQ(task->address, "");
  EXPECT_EQ(task->chunk, 3);
  EXPECT_FALSE(next()) << "it is on its way";
}

TEST_F(Sources, AtMostTwoAreOnTheirWayFromOneSource) {
  given({0, 1, 2});
  EXPECT_TRUE(next() && next());
  EXPECT_FALSE(next());
}

TEST_F(Sources, TheServiceComesBeforeWorkersAndRareChunksFirst) {
  worker("w2", "f0");  // chunks 0 to 3
  worker("w3", "70");  // 1 to 3
  given({7});
  EXPECT_EQ(next()->chunk, 7);
  const auto rare = next();
  EXPECT_EQ(rare->chunk, 0) << "only one worker has it";
  EXPECT_EQ(rare->worker, "w2");
}

TEST_F(Sources, WhatIsNeededFirstIsGotFirst) {
  worker("w2", "ff");
  sources.need_first({6, 2});
  EXPECT_EQ(next()->chunk, 6);
  EXPECT_EQ(next()->chunk, 2);
  have[6] = true;
  EXPECT_EQ(sources.needed_first(have), std::vector<int64_t>{2});
}

TEST_F(Sources, AFrozenSourceDelaysNobody) {
  worker("w2", "80");
  const auto frozen = next();
  ASSERT_EQ(frozen->chunk, 0);
  worker("w3", "80");
  EXPECT_EQ(next()->chunk, -1) << "the chunk is on its way";
  now += ChunkSources::kLate;
  std::optional<ChunkSources::Task> again;
  while ((again = next()) && again->chunk < 0) {
  }
  ASSERT_TRUE(again);
  EXPECT_EQ(again->worker, "w3");
}

TEST_F(Sources, ASourceThatFailsIsLeftAloneLongerAndLonger) {
  given({0});
  auto task = next();
  sources.failed(*task, now);
  EXPECT_FALSE(next());
  now += ChunkSources::kQuietFirst;
  task = next();
  ASSERT_TRUE(task);
  sources.failed(*task, now);
  now += ChunkSources::kQuietFirst;
  EXPECT_FALSE(next()) << "twice as long now";
  now += ChunkSources::kQuietFirst;
  EXPECT_TRUE(next());
}

TEST_F(Sources, WorkersAreAskedWhatTheyHaveNowAndThen) {
  worker("w2", "00");
  const auto task = next();
  ASSERT_TRUE(task);
  EXPECT_EQ(task->chunk, -1);
  EXPECT_FALSE(next()) << "asked just now";
  sources.learned(*task, {true, false, false, false, false, false, false, false});
  EXPECT_EQ(next()->chunk, 0);
}

TEST_F(Sources, AWorkerThatTheServiceDoesNotNameAnyMoreIsGone) {
  worker("w2", "ff");
  holders.clear();
  given({});
  EXPECT_FALSE(sources.has_workers());
  EXPECT_FALSE(next());
}

TEST_F(Sources, WorkersThatBeginTogetherBeginAtDifferentChunks) {
  std::set<int64_t> begun;
  for (uint64_t salt = 0; salt < 4; ++salt) {
    ChunkSources mine(kChunks, salt * 3);
    mine.take({.holders = {{"w9", "w9:1", "ff", "w9's key"}}, .take = {}, .key = ""});
    begun.insert(mine.next(have, now)->chunk);
  }
  EXPECT_EQ(begun.size(), 4U);
}

TEST_F(Sources, OddAnswersChangeNothing) {
  sources.take({.holders = {{"w2", "w2:1", "not bits", "a key"}, {"w3", "", "ff", "a key"}, {"w4", "w4:1", "ff", ""}},
                .take = {-1, 8, 1000},
                .key = ""});
  EXPECT_FALSE(sources.has_workers());
  EXPECT_FALSE(next());
}

}  // namespace
}  // namespace holdfast::worker
