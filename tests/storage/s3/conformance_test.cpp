// The promises of the object-store seam, held by every kind of store: the one at HOLDFAST_TEST_STORE (test_s3.py names stores
// of real S3 servers), or a folder where that is not set.
#include <atomic>
#include <cstdlib>
#include <random>
#include <thread>

#include "storage/open_store.h"
#include "storage/places/place.h"
#include "tests/storage/checks.h"
#include "tests/storage/temporary_folder.h"

namespace holdfast::storage::testing {
namespace {

using Keys = std::vector<std::string>;

Bytes bytes_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

class ObjectStoreConformance : public ::testing::Test {
 protected:
  std::unique_ptr<ObjectStore> open() const {
    auto store = open_store(place_, "");
    EXPECT_TRUE(ok(store));
    return store ? *std::move(store) : nullptr;
  }
  void SetUp() override { ASSERT_NE(store_, nullptr); }

  static std::string new_place(const TemporaryFolder& folder) {
    const char* named = std::getenv("HOLDFAST_TEST_STORE");
    std::random_device random;  // the server's bucket outlives a test
    return place_below(named != nullptr ? std::string(named) : folder.path(), "t" + std::to_string(random()));
  }
  const TemporaryFolder folder_;
  const std::string place_ = new_place(folder_);
  std::unique_ptr<ObjectStore> store_ = open();
};

TEST_F(ObjectStoreConformance, HoldsWhatWasPut) {
  ASSERT_TRUE(ok(store_->put("x/y", bytes_of("one"))));
  ASSERT_TRUE(ok(store_->put("x/y", bytes_of("two"))));
  ASSERT_TRUE(ok(store_->put("z", {})));
  EXPECT_EQ(store_->get("x/y").value(), bytes_of("two"));
  EXPECT_TRUE(store_->get("z")->empty());
  EXPECT_EQ(open()->get("x/y").value(), bytes_of("two")) << "and another opener finds it";
}

TEST_F(ObjectStoreConformance, HoldsLargeObjectsOfAllBytes) {
  std::mt19937 random(1);
  Bytes large((20 << 20) + 7);
  for (std::byte& byte : large) byte = static_cast<std::byte>(random());
  ASSERT_TRUE(ok(store_->put("step-1/large.hfs", large)));
  EXPECT_TRUE(store_->get("step-1/large.hfs").value() == large);
  large.front() ^= std::byte{1};
  ASSERT_TRUE(ok(store_->put("step-1/large.hfs", large)));
  EXPECT_TRUE(store_->get("step-1/large.hfs").value() == large);
}

TEST_F(ObjectStoreConformance, RefusesNamesThatAreNotKeys) {
  for (const char* key : {"../outside", "/etc/passwd", "", ".tmp-a", "a:b", "a b"}) {
    EXPECT_EQ(store_->put(key, {}).error().code, Error::Code::kRefused);
    EXPECT_EQ(store_->get(key).error().code, Error::Code::kRefused);
    EXPECT_EQ(store_->remove(key).error().code, Error::Code::kRefused);
  }
}

TEST_F(ObjectStoreConformance, ListsKeysByPrefix) {
  for (const char* key : {"step-1/a", "step-1/b", "step-12/a", "top", "Upper/x_y"}) ASSERT_TRUE(ok(store_->put(key, {})));
  EXPECT_EQ(store_->list("").value(), (Keys{"Upper/x_y", "step-1/a", "step-1/b", "step-12/a", "top"}));
  EXPECT_EQ(store_->list("step-1").value(), (Keys{"step-1/a", "step-1/b", "step-12/a"}));
  EXPECT_EQ(store_->list("step-1/").value(), (Keys{"step-1/a", "step-1/b"}));
  EXPECT_EQ(store_->list("step-1/b").value(), (Keys{"step-1/b"}));
  EXPECT_EQ(store_->list("nothing").value(), Keys{});
  EXPECT_EQ(store_->list("../").value(), Keys{});
}

TEST_F(ObjectStoreConformance, RemovesOnceAndAgain) {
  ASSERT_TRUE(ok(store_->put("x/y/z", bytes_of("one"))));
  ASSERT_TRUE(ok(store_->put("x/y/z2", bytes_of("two"))));
  EXPECT_TRUE(ok(store_->remove("x/y/z")));
  EXPECT_TRUE(ok(store_->remove("x/y/z")));
  EXPECT_TRUE(ok(store_->remove("never/there")));
  EXPECT_EQ(store_->get("x/y/z").error().code, Error::Code::kNotFound);
  EXPECT_TRUE(is_absent(*store_, "x/y/z"));
  EXPECT_EQ(store_->get("x/y/z2").value(), bytes_of("two"));
  EXPECT_EQ(store_->list("").value(), (Keys{"x/y/z2"}));
}

TEST_F(ObjectStoreConformance, AReaderOfWhatIsNotThereIsTold) {
  EXPECT_EQ(store_->get("x").error().code, Error::Code::kNotFound);
  const auto opened = open_store(place_below(place_, "never"), "", {.missing = MissingFolder::kFail});
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Error::Code::kNotFound) << opened.error().message;
}

TEST_F(ObjectStoreConformance, KeepsCheckpointsAndPartsAndRetention) {
  const WriteOptions options{.shard_bytes = 4000, .threads = 3};
  for (const int64_t step : {10, 20, 30})
    ASSERT_TRUE(ok(write_checkpoint(*store_, manifest_at(step), State(static_cast<uint32_t>(step)).tensors(), options)));
  ASSERT_TRUE(ok(write_checkpoint(*store_, manifest_at(30, 2), State(31).tensors(), options)));
  EXPECT_EQ(write_checkpoint(*store_, manifest_at(30, 1), State(30).tensors(), options).error().code, Error::Code::kRefused);
  EXPECT_TRUE(holds(*store_, 30, State(31)));

  const State state(40);
  const Manifest manifest = manifest_of(40, state);
  const auto pieces = pieces_of(state);
  const size_t half = pieces.size() / 2;
  ASSERT_TRUE(ok(write_part(*store_, manifest, {1, 2}, std::span(pieces).subspan(half), options)));
  Parts parts;
  ASSERT_TRUE(ok(find_parts(*store_, manifest, 2, parts)));
  ASSERT_EQ(parts.size(), 1U);
  ASSERT_TRUE(ok(write_part(*store_, manifest, {0, 2}, std::span(pieces).first(half), options)));
  ASSERT_TRUE(ok(find_parts(*store_, manifest, 2, parts)));
  ASSERT_TRUE(ok(put_manifest_of(*store_, manifest, parts)));

  const Retention kept = apply_retention(*store_, 2, 40);
  EXPECT_TRUE(ok(kept.problem));
  EXPECT_EQ(kept.removed, (std::vector<int64_t>{10, 20}));
  EXPECT_TRUE(ok(remove_orphans(*store_, {})));
  EXPECT_TRUE(holds(*store_, 30, State(31)));
  EXPECT_TRUE(holds(*store_, 40, state));
  size_t named = 0;
  for (const int64_t step : {30, 40}) named += 1 + read_manifest(*store_, step)->shards.size();
  EXPECT_EQ(store_->list("")->size(), named) << "nothing is left of the others";
}

TEST_F(ObjectStoreConformance, ADamagedShardIsNamed) {
  const auto written = write_checkpoint(*store_, manifest_at(10), State(1).tensors(), {.shard_bytes = 4000});
  ASSERT_TRUE(ok(written));
  const std::string& key = written->shards[2].key;
  Bytes bytes = store_->get(key).value();
  bytes[bytes.size() / 2] ^= std::byte{4};
  ASSERT_TRUE(ok(store_->put(key, bytes)));
  const auto verified = verify_checkpoint(*store_, 10);
  ASSERT_FALSE(verified);
  EXPECT_EQ(verified.error().code, Error::Code::kCorrupt);
  EXPECT_NE(verified.error().message.find(key), std::string::npos) << verified.error().message;
}

// Two put one key, another removes it and one reads: it is whole, or not there.
TEST_F(ObjectStoreConformance, PutsAndRemovesOfOneKeyAtOnceLeaveItWholeOrAbsent) {
  const Bytes values[] = {Bytes(5000, std::byte{1}), Bytes(7000, std::byte{2})};
  std::atomic<int> writers = 2;
  std::vector<std::thread> threads;
  for (const Bytes& value : values) {
    threads.emplace_back([&] {
      const auto store = open();
      for (int i = 0; i < 20; ++i) EXPECT_TRUE(ok(store->put("step-1/object.hfs", value)));
      --writers;
    });
  }
  threads.emplace_back([&] {
    while (writers > 0) EXPECT_TRUE(ok(store_->remove("step-1/object.hfs")));
  });
  threads.emplace_back([&] {
    const auto store = open();
    while (writers > 0) {
      const auto found = store->get("step-1/object.hfs");
      if (found) {
        EXPECT_TRUE(*found == values[0] || *found == values[1]);
      } else {
        EXPECT_EQ(found.error().code, Error::Code::kNotFound) << found.error().message;
      }
    }
  });
  for (std::thread& thread : threads) thread.join();
}

TEST_F(ObjectStoreConformance, ListsMoreThanAPage) {
  constexpr int kKeys = 1103;  // S3 gives out a thousand at a time
  std::atomic<int> next = 0;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 8; ++thread) {
    threads.emplace_back([&] {
      for (int i = next++; i < kKeys; i = next++) EXPECT_TRUE(ok(store_->put("many/" + std::to_string(i) + ".hfs", {})));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(store_->list("many/")->size(), size_t{kKeys});
}

}  // namespace
}  // namespace holdfast::storage::testing
