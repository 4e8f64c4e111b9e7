// Altered files of a checkpoint on a real disk: each error names the file, and nothing is loaded.
#include <filesystem>
#include <random>

#include "tests/storage/checks.h"
#include "tests/storage/seed.h"
#include "tests/storage/temporary_folder.h"

namespace holdfast::storage::testing {
namespace {

class Corruption : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto written = write_checkpoint(*store_, manifest_at(60), state_.tensors(), {.shard_bytes = 4000});
    ASSERT_TRUE(ok(written));
    manifest_ = *written;
  }

  // Checks that verify and read both refuse the checkpoint and name the file.
  void expect_named(const std::string& key, const std::string& what = "", int threads = 1) {
    State found = state_.blank();
    const auto writable = found.writable();
    for (const auto& result : {verify_checkpoint(*store_, 60, threads), read_checkpoint(*store_, 60, writable, threads)}) {
      ASSERT_FALSE(result) << "altered bytes were taken";
      EXPECT_EQ(result.error().code, Error::Code::kCorrupt) << result.error().message;
      EXPECT_NE(result.error().message.find(key), std::string::npos) << result.error().message;
      EXPECT_NE(result.error().message.find(folder_.path()), std::string::npos) << result.error().message;
      EXPECT_NE(result.error().message.find(what), std::string::npos) << result.error().message;
    }
    EXPECT_TRUE(is_listed(*store_, 60)) << "it is there, and wrong";
  }

  TemporaryFolder folder_;
  std::unique_ptr<ObjectStore> store_ = std::move(*open_directory_store(folder_.path()));
  const State state_{1};
  Manifest manifest_;
};

TEST_F(Corruption, EveryByteOfAShardIsChecked) {
  const std::string key = manifest_.shards[1].key;
  const std::string content = folder_.read_file(key);
  const uint32_t seed = chosen_seed();
  SCOPED_TRACE(how_to_repeat(seed));
  std::mt19937 random(seed);
  for (size_t at = 0; at < content.size(); at += at < 200 ? 1 : 37) {
    SCOPED_TRACE("byte " + std::to_string(at));
    std::string altered = content;
    altered[at] = static_cast<char>(altered[at] ^ (1 << (random() % 8)));
    folder_.write_file(key, altered);
    expect_named(key);
  }
  folder_.write_file(key, content);
  EXPECT_TRUE(holds(*store_, 60, state_));
}

TEST_F(Corruption, EveryByteOfTheManifestIsChecked) {
  const std::string key = manifest_key(60), content = folder_.read_file(key);
  for (size_t at = 0; at < content.size(); ++at) {
    SCOPED_TRACE("byte " + std::to_string(at));
    std::string altered = content;
    altered[at] = static_cast<char>(altered[at] ^ 4);
    folder_.write_file(key, altered);
    const auto read = read_manifest(*store_, 60);
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().code, Error::Code::kCorrupt);
    EXPECT_NE(read.error().message.find("manifest.json"), std::string::npos) << read.error().message;
  }
  expect_named(key);
}

TEST_F(Corruption, ATruncatedShardIsNamedWithBothLengths) {
  const std::string key = manifest_.shards[2].key, content = folder_.read_file(key);
  for (const size_t length : {size_t{0}, size_t{7}, size_t{100}, content.size() - 1}) {
    folder_.write_file(key, content.substr(0, length));
    expect_named(key, "has " + std::to_string(length) + " bytes, the manifest says " + std::to_string(content.size()));
  }
  folder_.write_file(key, content + "x");
  expect_named(key, "added to");
}

TEST_F(Corruption, ATruncatedManifestIsNamed) {
  const std::string content = folder_.read_file(manifest_key(60));
  for (const size_t length : {size_t{0}, size_t{20}, size_t{48}, content.size() / 2, content.size() - 1}) {
    folder_.write_file(manifest_key(60), content.substr(0, length));
    expect_named(manifest_key(60));
  }
  folder_.write_file(manifest_key(60), content + "\n");
  expect_named(manifest_key(60), "checksum is");
}

TEST_F(Corruption, AManifestThatIsNestedWithoutEndIsNamed) {
  const std::string key = manifest_key(60), content = folder_.read_file(key), head = "{\"checksum\": \"";
  const size_t rest = content.find('\n') + 1;
  const std::string nested =
      "\"spec\": " + std::string(1'000'000, '[') + std::string(1'000'000, ']') + "," + content.substr(rest);
  ASSERT_TRUE(content.starts_with(head)) << content.substr(0, 80);
  std::string altered = content;
  altered.replace(head.size(), 32, checksum_hex(std::as_bytes(std::span(nested))));
  folder_.write_file(key, altered.substr(0, rest) + nested);
  expect_named(key, "nested deeper than 64 levels");
}

TEST_F(Corruption, TwoShardsThatChangedPlacesAreNamed) {
  const std::string a = manifest_.shards[0].key, b = manifest_.shards[1].key;
  const std::string content_a = folder_.read_file(a), content_b = folder_.read_file(b);
  folder_.write_file(a, content_b);
  folder_.write_file(b, content_a);
  expect_named(a);
}

TEST_F(Corruption, AShardThatIsGoneIsNamed) {
  const std::string key = manifest_.shards[3].key;
  std::filesystem::remove(folder_.path() + "/" + key);
  expect_named(key, "is missing");
  expect_named(key, "is missing", 3);
}

// The shard is whole, consistent and of the same range, but from another write: only the manifest shows the difference.
TEST_F(Corruption, AShardOfAnotherWriteIsNamed) {
  TemporaryFolder elsewhere;
  const auto store = std::move(*open_directory_store(elsewhere.path()));
  State other = state_;
  auto& bytes = other.list()[0].bytes;
  std::swap(bytes[0], bytes[4]);  // has the same size when packed
  const auto written = write_checkpoint(*store, manifest_at(60), other.tensors(), {.shard_bytes = 4000});
  ASSERT_TRUE(ok(written));
  ASSERT_NE(written->shards[0].key, manifest_.shards[0].key);
  ASSERT_EQ(written->shards[0].stored_bytes, manifest_.shards[0].stored_bytes);
  folder_.write_file(manifest_.shards[0].key, elsewhere.read_file(written->shards[0].key));
  expect_named(manifest_.shards[0].key, "it was replaced");
}

TEST_F(Corruption, TensorsThatDoNotTouchABadShardAreStillRead) {
  folder_.write_file(manifest_.shards.back().key, "");
  State found = state_.blank();
  auto some = found.writable();
  some.resize(1);
  EXPECT_TRUE(ok(read_tensors(*store_, 60, some)));
  auto last = found.writable();
  last.erase(last.begin(), last.end() - 1);
  EXPECT_FALSE(read_tensors(*store_, 60, last));
}

}  // namespace
}  // namespace holdfast::storage::testing
