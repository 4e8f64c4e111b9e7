// Data sets on this machine: what is kept, what goes, and what a chunk's flag is worth.
#include "worker/data_sets/cache.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/model/temporary_folder.h"
#include "tests/worker/data_sets/made_set.h"

namespace holdfast::worker {
namespace {

namespace fs = std::filesystem;

std::shared_ptr<CachedSet> opened(DataCache& cache, const MadeSet& made) {
  auto set = cache.open(made.manifest);
  if (!set) throw std::runtime_error(set.error());
  return *set;
}

void put(CachedSet& set, const MadeSet& made, int64_t chunk) {
  const std::string bytes = made.chunk(chunk);
  ASSERT_TRUE(set.put(chunk, std::as_bytes(std::span(bytes))));
}

void put_all(CachedSet& set, const MadeSet& made) {
  for (int64_t chunk = 0; chunk < set.chunks(); ++chunk) put(set, made, chunk);
}

void overwrite(const std::string& path, int64_t at, const std::string& bytes) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(at);
  file << bytes;
}

class Cache : public ::testing::Test {
 protected:
  model::TemporaryFolder folder;
  const MadeSet two = made_set(kTokensOfChunk + 10);  // chunks
};

TEST_F(Cache, ASetComesChunkByChunkAndIsThereForTheNextProcess) {
  DataCache cache(folder.path(), 0);
  {
    const auto set = opened(cache, two);
    EXPECT_EQ(set->missing(), 2);
    put(*set, two, 1);
    EXPECT_TRUE(set->has(1));
    EXPECT_EQ(set->get(1), two.chunk(1));
    EXPECT_EQ(fs::file_size(set->path_of("train.bin")), two.bytes.size());
  }
  DataCache another(folder.path(), 0);
  EXPECT_EQ(another.manifest_of(two.manifest.digest()), two.manifest);
  const auto set = opened(another, two);
  EXPECT_EQ(set->have(), (std::vector<bool>{false, true}));
}

TEST_F(Cache, TwoProcessesSeeEachOthersChunks) {
  DataCache cache(folder.path(), 0), other(folder.path(), 0);
  const auto here = opened(cache, two), there = opened(other, two);
  put(*here, two, 0);
  EXPECT_TRUE(there->has(0));
}

TEST_F(Cache, AfterTheMachinesNextStartOnlyRightBytesCount) {
  DataCache cache(folder.path(), 0);
  const std::string path = opened(cache, two)->folder();
  {
    const auto set = opened(cache, two);
    put_all(*set, two);
  }
  overwrite(path + "/train.bin", 5, "lost");
  std::ofstream(path + "/started") << "another run of the machine";
  EXPECT_EQ(opened(cache, two)->have(), (std::vector<bool>{false, true}));
}

TEST_F(Cache, AWholeSetCountsAfterTheNextStartWithoutBeingRead) {
  DataCache cache(folder.path(), 0);
  {
    const auto set = opened(cache, two);
    put_all(*set, two);
    ASSERT_TRUE(set->finish());
    fs::remove(set->path_of("started"));
  }
  EXPECT_TRUE(opened(cache, two)->is_whole());
}

TEST_F(Cache, DamageIsFoundByReadingAllChunks) {
  DataCache cache(folder.path(), 0);
  const auto set = opened(cache, two);
  put_all(*set, two);
  ASSERT_TRUE(set->finish());
  overwrite(set->path_of("train.bin"), rendezvous::kChunkBytes + 1, "x");
  EXPECT_EQ(set->verify(), 1);
  EXPECT_EQ(set->have(), (std::vector<bool>{true, false}));
  EXPECT_FALSE(fs::exists(set->path_of("whole")));
}

TEST_F(Cache, TheSetUsedLongestAgoMakesRoom) {
  const int64_t of_one = static_cast<int64_t>(two.bytes.size());
  DataCache cache(folder.path(), 2 * of_one + 100);
  const MadeSet old = made_set(kTokensOfChunk + 10, 2), newer = made_set(kTokensOfChunk + 10, 3);
  const std::string first = opened(cache, old)->folder(), second = opened(cache, newer)->folder();
  fs::last_write_time(first + "/in_use", fs::file_time_type::clock::now() - std::chrono::hours(2));
  fs::last_write_time(second + "/in_use", fs::file_time_type::clock::now() - std::chrono::hours(1));
  opened(cache, two);
  EXPECT_FALSE(fs::exists(first));
  EXPECT_TRUE(fs::exists(second));
}

TEST_F(Cache, WhatWasBrokenOffWhileItWasMadeIsNotCountedTwice) {
  const int64_t of_one = static_cast<int64_t>(two.bytes.size());
  const std::string begun = folder.path() + "/" + two.manifest.digest();
  fs::create_directories(begun);
  std::ofstream(begun + "/manifest.json") << to_json(two.manifest);
  DataCache cache(folder.path(), of_one + 100);
  EXPECT_TRUE(cache.open(two.manifest)) << "only its process died before the rest was there";
}

TEST_F(Cache, ASetInUseStaysAndTheNewOneIsRefused) {
  const int64_t of_one = static_cast<int64_t>(two.bytes.size());
  DataCache cache(folder.path(), of_one + 100);
  const auto held = opened(cache, two);
  const auto refused = cache.open(made_set(kTokensOfChunk + 10, 2).manifest);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().find("does not fit into"), std::string::npos) << refused.error();
  EXPECT_NE(refused.error().find("raise --data_cache_gib"), std::string::npos);
  EXPECT_TRUE(fs::exists(held->folder()));
}

}  // namespace
}  // namespace holdfast::worker
