// Checkpoints in two places: copied, broken off and gone on with, damaged in both at random, read and mended.
#include "storage/copies/copying.h"

#include <gmock/gmock.h>

#include <map>
#include <mutex>
#include <random>
#include <set>

#include "tests/storage/checks.h"
#include "tests/storage/seed.h"
#include "tests/storage/temporary_folder.h"

namespace holdfast::storage::testing {
namespace {

using ::testing::HasSubstr;

constexpr WriteOptions kOptions{.shard_bytes = 4000};

// Counts puts, and lets only so many of them through.
class Counting : public ForwardingStore {
 public:
  Counting(std::unique_ptr<ObjectStore> store, int puts_max) : ForwardingStore(std::move(store)), left_(puts_max) {}
  Result<void> put(const std::string& key, std::span<const std::byte> bytes) override {
    if (left_-- <= 0) return tl::unexpected(Error{Error::Code::kUnavailable, "the link is cut"});
    keys.push_back(key);
    return ForwardingStore::put(key, bytes);
  }
  std::vector<std::string> keys;

 private:
  int left_;
};

class Copies : public ::testing::Test {
 protected:
  std::unique_ptr<ObjectStore> open(const std::string& name) const {
    return std::move(*open_directory_store(folder_.path() + "/" + name));
  }
  TemporaryFolder folder_;
  std::unique_ptr<ObjectStore> first_ = open("a"), second_ = open("b");
};

TEST_F(Copies, AreTheSameObjectsAndGoOnWhereTheyWereBrokenOff) {
  const State state(1);
  const auto written = write_checkpoint(*first_, manifest_at(10), state.tensors(), kOptions);
  ASSERT_TRUE(ok(written));
  const size_t shards = written->shards.size();
  std::set<std::string> sent;
  for (int puts = 0;; ++puts) {  // one more object gets through each time
    Counting link(open("b"), 1);
    const auto copied = copy_checkpoint(*first_, link, 10);
    for (const std::string& key : link.keys) EXPECT_TRUE(sent.insert(key).second) << key << " was sent twice";
    if (copied) {
      EXPECT_EQ(static_cast<size_t>(puts), shards) << "the manifest came with the last of them";
      break;
    }
    EXPECT_FALSE(is_listed(*second_, 10)) << "a copy that is not whole is not there";
    ASSERT_LT(puts, 100);
  }
  EXPECT_TRUE(holds(*second_, 10, state));
  EXPECT_EQ(first_->list("").value(), second_->list("").value());
  const auto again = copy_checkpoint(*first_, *second_, 10);
  EXPECT_EQ(again->sent_shards, 0);
  EXPECT_EQ(again->kept_shards, static_cast<int64_t>(shards));
}

TEST_F(Copies, OfADamagedCheckpointAreNotMade) {
  const auto written = write_checkpoint(*first_, manifest_at(10), State(1).tensors(), kOptions);
  Bytes bytes = first_->get(written->shards[1].key).value();
  bytes[9] ^= std::byte{1};
  ASSERT_TRUE(ok(first_->put(written->shards[1].key, bytes)));
  const auto copied = copy_checkpoint(*first_, *second_, 10);
  ASSERT_FALSE(copied);
  EXPECT_EQ(copied.error().code, Error::Code::kCorrupt);
  EXPECT_THAT(copied.error().message, HasSubstr(written->shards[1].key));
  EXPECT_FALSE(is_listed(*second_, 10));
  EXPECT_EQ(copy_checkpoint(*first_, *second_, 20).error().code, Error::Code::kNotFound);
}

TEST_F(Copies, AManifestComesToThePlaceThatLacksItAfterItsShards) {
  const State state(1);
  const auto written = write_checkpoint(*first_, manifest_at(10), state.tensors(), kOptions);
  ASSERT_TRUE(ok(written));
  ASSERT_TRUE(ok(copy_checkpoint(*first_, *second_, 10)));
  ASSERT_TRUE(ok(remove_checkpoint(*first_, 10)));
  const auto joined = join_places(open("a"), open("b"));
  ASSERT_TRUE(ok(read_manifest(*joined, 10)));
  EXPECT_FALSE(is_listed(*first_, 10)) << "looking at it brings no shards";
  for (const ShardInfo& shard : written->shards) {
    EXPECT_FALSE(is_listed(*first_, 10)) << "before " << shard.key;
    ASSERT_TRUE(ok(joined->get(shard.key)));
  }
  EXPECT_TRUE(holds(*first_, 10, state));
}

TEST_F(Copies, MayBeStoppedAndAreKeptToARate) {
  ASSERT_TRUE(ok(write_checkpoint(*first_, manifest_at(10), State(1).tensors(), kOptions)));
  const std::atomic<bool> stop = true;
  EXPECT_EQ(copy_checkpoint(*first_, *second_, 10, {.stop = &stop}).error().code, Error::Code::kUnavailable);
  const auto begin = std::chrono::steady_clock::now();
  const auto copied = copy_checkpoint(*first_, *second_, 10, {.bytes_per_s = 100'000});
  ASSERT_TRUE(ok(copied));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  EXPECT_GE(took.count(), static_cast<double>(copied->sent_bytes) / 100'000 - 0.001) << "it never goes above its rate";
}

// Each object of both places is left, altered, cut short or removed; true: it is whole in one of them.
class Damage {
 public:
  explicit Damage(uint32_t seed) : random_(seed) {}
  bool strike(ObjectStore& first, ObjectStore& second, const std::string& key) {
    const bool a = spare(first, key), b = spare(second, key);
    of_first_ += a ? 0 : 1;
    return a || b;
  }
  int of_first() const { return of_first_; }  // objects of the first place that are damaged

 private:
  bool spare(ObjectStore& store, const std::string& key) {
    const uint32_t kind = random_() % 8;
    if (kind > 2) return true;
    Bytes bytes = store.get(key).value();
    if (kind == 0) bytes[random_() % bytes.size()] ^= static_cast<std::byte>(1 << random_() % 8);
    if (kind == 1) bytes.resize(random_() % bytes.size());
    EXPECT_TRUE(ok(kind == 2 ? store.remove(key) : store.put(key, bytes)));
    return false;
  }
  std::mt19937 random_;
  int of_first_ = 0;
};

TEST_F(Copies, ThatAreDamagedAtRandomAreReadAndMendedWhileEachObjectIsWholeSomewhere) {
  const uint32_t seed = chosen_seed();
  SCOPED_TRACE(how_to_repeat(seed));
  int restored = 0, lost_ones = 0;
  for (uint32_t round = 0; round < 60; ++round) {
    const State state(round);
    const auto written = write_checkpoint(*first_, manifest_at(10, round), state.tensors(), kOptions);
    ASSERT_TRUE(ok(written));
    ASSERT_TRUE(ok(copy_checkpoint(*first_, *second_, 10)));
    Damage damage(seed + round);
    std::vector<std::string> lost;
    for (const ShardInfo& shard : written->shards) {
      if (!damage.strike(*first_, *second_, shard.key)) lost.push_back(shard.key);
    }
    const bool manifest_lives = damage.strike(*first_, *second_, manifest_key(10));
    const bool by_reading = round % 2 == 0;
    if (!manifest_lives) {
      EXPECT_FALSE(mend_checkpoint(*first_, *second_, 10));
      EXPECT_FALSE(verify_checkpoint(*join_places(open("a"), open("b")), 10));
    } else if (!lost.empty()) {
      ++lost_ones;
      const auto mending = mend_checkpoint(*first_, *second_, 10);
      ASSERT_TRUE(ok(mending));
      ASSERT_EQ(mending->lost.size(), lost.size());
      for (size_t i = 0; i < lost.size(); ++i) EXPECT_THAT(mending->lost[i], HasSubstr(lost[i]));
      const auto read = verify_checkpoint(*join_places(open("a"), open("b")), 10);
      ASSERT_FALSE(read);
      EXPECT_THAT(read.error().message, HasSubstr(lost[0]));
    } else if (by_reading) {
      ++restored;
      int told = 0;
      const auto joined = join_places(open("a"), open("b"), [&](const std::string&) { ++told; });
      EXPECT_TRUE(holds(*joined, 10, state));
      EXPECT_TRUE(holds(*first_, 10, state)) << "the first place was mended as it was read";
      EXPECT_GE(told, damage.of_first());
    } else {
      ++restored;
      const auto mending = mend_checkpoint(*first_, *second_, 10);
      ASSERT_TRUE(ok(mending));
      EXPECT_TRUE(mending->lost.empty());
      EXPECT_TRUE(holds(*first_, 10, state));
      EXPECT_TRUE(holds(*second_, 10, state));
      EXPECT_TRUE(mend_checkpoint(*first_, *second_, 10)->mended.empty()) << "nothing is left to mend";
    }
    for (const auto& store : {first_.get(), second_.get()}) {
      const auto keys = store->list("");
      for (const std::string& key : *keys) EXPECT_TRUE(ok(store->remove(key)));
    }
  }
  EXPECT_GT(restored, 5);
  EXPECT_GT(lost_ones, 5);
}

TEST_F(Copies, OfAPlaceThatIsGoneAreReadAndItsOwnCheckpointsStayListed) {
  const State state(1);
  ASSERT_TRUE(ok(write_checkpoint(*first_, manifest_at(10), state.tensors(), kOptions)));
  ASSERT_TRUE(ok(copy_checkpoint(*first_, *second_, 10)));
  ASSERT_TRUE(ok(write_checkpoint(*first_, manifest_at(20), state.tensors(), kOptions)));
  std::vector<std::string> said;
  const auto joined = join_places(open("a"), open("b"), [&](const std::string& text) { said.push_back(text); });
  EXPECT_EQ(list_checkpoints(*joined).value(), (std::vector<int64_t>{10, 20}));
  std::filesystem::remove_all(folder_.path() + "/a");
  EXPECT_EQ(list_checkpoints(*joined).value(), (std::vector<int64_t>{10}));
  EXPECT_TRUE(holds(*joined, 10, state));
  ASSERT_FALSE(said.empty());
  EXPECT_THAT(said.front(), HasSubstr("has vanished"));
  EXPECT_EQ(verify_checkpoint(*joined, 20).error().code, Error::Code::kUnavailable) << "it may come back";
  EXPECT_FALSE(std::filesystem::exists(folder_.path() + "/a"));
}

TEST_F(Copies, OfAnOlderWriteOfTheStepAreReplaced) {
  ASSERT_TRUE(ok(write_checkpoint(*first_, manifest_at(10, 1), State(1).tensors(), kOptions)));
  ASSERT_TRUE(ok(copy_checkpoint(*first_, *second_, 10)));
  ASSERT_TRUE(ok(write_checkpoint(*first_, manifest_at(10, 2), State(2).tensors(), kOptions)));
  EXPECT_TRUE(holds(*second_, 10, State(1)));
  ASSERT_TRUE(ok(mend_checkpoint(*first_, *second_, 10)));
  EXPECT_TRUE(holds(*second_, 10, State(2)));
  ASSERT_TRUE(ok(write_checkpoint(*first_, manifest_at(10, 3), State(3).tensors(), kOptions)));
  ASSERT_TRUE(ok(copy_checkpoint(*first_, *second_, 10)));
  EXPECT_TRUE(holds(*second_, 10, State(3)));
}

}  // namespace
}  // namespace holdfast::storage::testing
