// Parts of a checkpoint, read without the rest of it.
#include <algorithm>
#include <memory>
#include <span>
#include <utility>

#include "tests/storage/checks.h"
#include "tests/storage/temporary_folder.h"

namespace holdfast::storage::testing {
namespace {

class PartsOfACheckpoint : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
  std::unique_ptr<ObjectStore> store_ = std::move(*open_directory_store(folder_.path()));
};

TEST_F(PartsOfACheckpoint, AreSomeTensorsAlone) {
  const State state(1);
  ASSERT_TRUE(ok(write_checkpoint(*store_, manifest_at(60), state.tensors(), {.shard_bytes = 500})));
  State found = state.blank();
  auto some = found.writable();
  some = {some[4], some[1]};
  ASSERT_TRUE(ok(read_tensors(*store_, 60, some, 2)));
  State copy = state;
  EXPECT_EQ(found.list()[1].bytes, copy.list()[1].bytes);
  EXPECT_EQ(found.list()[4].bytes, copy.list()[4].bytes);
  EXPECT_EQ(found.list()[0].bytes, state.blank().list()[0].bytes) << "what was not asked for is left alone";
}

// Parts that begin and end within shards and beyond their bounds.
TEST_F(PartsOfACheckpoint, AreRangesOfTensorsFromTheShardsThatHaveThem) {
  State state(1);
  ASSERT_TRUE(ok(write_checkpoint(*store_, manifest_at(60), state.tensors(), {.shard_bytes = 500})));
  const auto manifest = read_manifest(*store_, 60);
  ASSERT_TRUE(ok(manifest));
  const size_t largest =
      static_cast<size_t>(std::ranges::max_element(manifest->tensors, {}, &TensorInfo::bytes) - manifest->tensors.begin());
  const TensorInfo& tensor = manifest->tensors[largest];
  ASSERT_GT(tensor.bytes, 1600);
  Bytes middle(1200), end(8);
  const std::vector<MutableRange> ranges{{tensor.name, tensor.bytes - 8, end}, {tensor.name, 260, middle}};
  ASSERT_TRUE(ok(read_ranges(*store_, 60, manifest->tensors, ranges, 2)));
  const auto& bytes = state.list()[largest].bytes;
  EXPECT_TRUE(std::ranges::equal(middle, std::span(bytes).subspan(260, 1200)));
  EXPECT_TRUE(std::ranges::equal(end, std::span(bytes).last(8)));
  for (const ShardInfo& shard : manifest->shards) ASSERT_TRUE(ok(store_->remove(shard.key)));
  EXPECT_FALSE(read_ranges(*store_, 60, manifest->tensors, ranges));
  EXPECT_TRUE(ok(read_ranges(*store_, 60, manifest->tensors, {}))) << "shards that nobody asks for are not looked at";
  auto fewer = manifest->tensors;
  fewer.pop_back();
  EXPECT_EQ(read_ranges(*store_, 60, fewer, ranges).error().code, Error::Code::kRefused) << "another model";
}

}  // namespace
}  // namespace holdfast::storage::testing
