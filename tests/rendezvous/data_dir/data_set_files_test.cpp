// The files below DATA_DIR/data: written, and found again.
#include "rendezvous/data_dir/data_set_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "rendezvous/text/sha256.h"

namespace holdfast::rendezvous {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class DataSetFilesTest : public testing::Test {
 protected:
  DataSetFilesTest()
      : folder_(testing::TempDir() + "holdfast-data-sets-" + std::to_string(getpid()) + "-" +
                testing::UnitTest::GetInstance()->current_test_info()->name()),
        files_(folder_) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~DataSetFilesTest() override { fs::remove_all(folder_); }

  static std::string name_of(const std::string& bytes) { return sha256_hex(std::as_bytes(std::span(bytes))); }
  std::string path_of(const std::string& bytes) const {
    return folder_ + "/data/chunks/" + name_of(bytes).substr(0, 2) + "/" + name_of(bytes);
  }
  void puts(const std::string& bytes) {
    ASSERT_TRUE(files_.put_chunk(name_of(bytes), std::as_bytes(std::span(bytes))).has_value());
  }
  KeptDataSet set_of(const std::string& bytes) const {
    auto manifest = std::make_shared<DataManifest>();
    manifest->files.push_back({"train.bin", static_cast<int64_t>(bytes.size()), {name_of(bytes)}, 0, 0, ""});
    return {manifest->digest(), manifest, "secret", 77};
  }
  FoundDataSets found() const { return DataSetFiles(folder_).load(now_ms()); }
  static int64_t now_ms() {
    return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  }
  const std::string folder_;
  DataSetFiles files_;
};

TEST_F(DataSetFilesTest, NothingIsMadeBeforeTheFirstPut) {
  EXPECT_THAT(found().sets, IsEmpty());
  EXPECT_FALSE(fs::exists(folder_ + "/data"));
}

TEST_F(DataSetFilesTest, AllThatWasPutIsFoundAgain) {
  puts("one");
  const KeptDataSet set = set_of("one");
  ASSERT_TRUE(files_.put_set(set).has_value());
  ASSERT_TRUE(files_.put_name({"wiki", set.digest, 99}).has_value());
  const FoundDataSets there = found();
  EXPECT_THAT(there.troubles, IsEmpty());
  ASSERT_THAT(there.sets, SizeIs(1));
  EXPECT_EQ(*there.sets[0].manifest, *set.manifest);
  EXPECT_EQ(there.sets[0].key, "secret");
  EXPECT_EQ(there.sets[0].pushed_ms, 77);
  ASSERT_THAT(there.names, SizeIs(1));
  EXPECT_EQ(there.names[0].name, "wiki");
  EXPECT_EQ(there.names[0].named_ms, 99);
  EXPECT_THAT(DataSetFiles::names_in(folder_), testing::ElementsAre("wiki"));
  ASSERT_THAT(there.chunks, SizeIs(1));
  EXPECT_EQ(there.chunks[0].bytes, 3);
  EXPECT_NEAR(static_cast<double>(there.chunks[0].touched_ms), static_cast<double>(now_ms()), 600'000.0);
}

TEST_F(DataSetFilesTest, ADamagedChunkIsSetAside) {
  puts("one");
  std::ofstream(path_of("one")) << "two";
  const auto read = files_.get_chunk(name_of("one"));
  ASSERT_FALSE(read.has_value());
  EXPECT_EQ(read.error().code, storage::Error::Code::kCorrupt);
  EXPECT_THAT(read.error().message, HasSubstr(path_of("one")));
  EXPECT_TRUE(fs::exists(path_of("one") + ".damaged"));
  EXPECT_THAT(found().chunks, IsEmpty());
  EXPECT_TRUE(fs::exists(path_of("one") + ".damaged")) << "for a day people may look at it";
  DataSetFiles(folder_).load(now_ms() + 2 * ChunkShelf::kKeptMs);
  EXPECT_FALSE(fs::exists(path_of("one") + ".damaged"));
}

TEST_F(DataSetFilesTest, UnfinishedPutsOfAServiceThatWasKilledAreRemoved) {
  puts("one");
  const std::string unfinished = fs::path(path_of("one")).parent_path().string() + "/.tmp-0123";
  std::ofstream(unfinished) << "o";
  EXPECT_THAT(found().chunks, SizeIs(1));
  EXPECT_FALSE(fs::exists(unfinished));
}

TEST_F(DataSetFilesTest, NamesAndManifestsThatDoNotFitAreTroublesAndNotUsed) {
  const KeptDataSet set = set_of("one");
  ASSERT_TRUE(files_.put_set(set).has_value());
  ASSERT_TRUE(files_.put_name({"wiki", std::string(64, 'a'), 1}).has_value());
  std::ofstream(folder_ + "/data/sets/" + std::string(64, 'b') + ".json") << "{}";
  std::ofstream(folder_ + "/data/names/code.json") << "no JSON";
  const FoundDataSets there = found();
  EXPECT_THAT(there.sets, SizeIs(1));
  EXPECT_THAT(there.names, IsEmpty());
  EXPECT_THAT(there.troubles, SizeIs(3));
}

TEST_F(DataSetFilesTest, RemovedChunksAreGoneAndRemovingThemAgainIsNoError) {
  puts("one");
  const std::vector<std::string> names{name_of("one"), name_of("never there")};
  EXPECT_EQ(files_.remove_chunks(names), names);
  EXPECT_FALSE(fs::exists(path_of("one")));
}

}  // namespace
}  // namespace holdfast::rendezvous
