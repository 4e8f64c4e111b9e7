// Checkpoints of a state that several writers have between them.
#include <gmock/gmock.h>

#include <algorithm>
#include <random>

#include "storage/manifest.h"
#include "tests/storage/checks.h"
#include "tests/storage/memory_store.h"

namespace holdfast::storage::testing {
namespace {

using ::testing::HasSubstr;

// Tensors of several pieces, so that writers have some of a tensor each.
class SeveralWriters : public ::testing::Test {
 protected:
  // The pieces of `writer` where each piece goes to the writer that `deal` says.
  std::vector<PieceBytes> own(int64_t writer) const {
    std::vector<PieceBytes> pieces;
    for (const PieceBytes& piece : all_) {
      if (deal_[piece.number] == writer) pieces.push_back(piece);
    }
    return pieces;
  }
  Result<Part> write(int64_t writer) {
    return write_part(store_, manifest_, {writer, writers_}, own(writer), {.shard_bytes = 600'000, .threads = 2});
  }
  void deal(int64_t writers, uint32_t seed) {
    std::mt19937 random(seed);
    writers_ = writers;
    deal_.clear();
    for (size_t i = 0; i < all_.size(); ++i) deal_.push_back(static_cast<int64_t>(random() % static_cast<uint32_t>(writers)));
  }
  Parts found() {
    Parts parts;
    EXPECT_TRUE(ok(find_parts(store_, manifest_, writers_, parts)));
    return parts;
  }
  std::vector<std::string> keys_with(const std::string& text) {
    auto keys = store_.list("").value();
    std::erase_if(keys, [&](const std::string& key) { return key.find(text) == std::string::npos; });
    return keys;
  }

  const State state_{7, 700, 331};
  const std::vector<PieceBytes> all_ = pieces_of(state_);
  MemoryStore store_;
  Manifest manifest_ = manifest_of(60, state_);
  int64_t writers_ = 1;
  std::vector<int64_t> deal_;  // by piece
};

TEST_F(SeveralWriters, MakeOneCheckpointHoweverThePiecesAreDealt) {
  ASSERT_GT(all_.size(), 8U);
  for (const int64_t writers : {1, 2, 3, 4, 7}) {
    ++manifest_.generation;
    deal(writers, static_cast<uint32_t>(writers));
    for (int64_t writer = writers - 1; writer >= 0; --writer) {
      EXPECT_EQ(found().size(), static_cast<size_t>(writers - 1 - writer));
      ASSERT_TRUE(ok(write(writer)));
    }
    const auto manifest = put_manifest_of(store_, manifest_, found());
    ASSERT_TRUE(ok(manifest));
    EXPECT_EQ(manifest->state_hash, state_hash(state_.tensors()));
    EXPECT_EQ(manifest->raw_bytes(), static_cast<int64_t>([&] {
                size_t bytes = 0;
                for (const PieceBytes& piece : all_) bytes += piece.bytes.size();
                return bytes;
              }()));
    EXPECT_TRUE(holds(store_, 60, state_)) << writers << " writers";
    EXPECT_TRUE(keys_with("part-").empty());
    EXPECT_EQ(read_manifest(store_, 60)->shards.size(), manifest->shards.size());
  }
}

TEST_F(SeveralWriters, RangesAreReadFromTheShardsThatHaveThem) {
  deal(3, 1);
  for (int64_t writer = 0; writer < 3; ++writer) ASSERT_TRUE(ok(write(writer)));
  const auto manifest = put_manifest_of(store_, manifest_, found());
  ASSERT_TRUE(ok(manifest));
  const TensorInfo& tensor = manifest->tensors.front();
  Bytes read(static_cast<size_t>(tensor.bytes) - 300'000);
  const MutableRange range{tensor.name, 200'000, std::span(read)};
  ASSERT_TRUE(ok(read_ranges(store_, 60, manifest->tensors, std::span(&range, 1), 2)));
  const auto tensors = state_.tensors();
  EXPECT_TRUE(std::ranges::equal(read, tensors.front().bytes.subspan(200'000, read.size())));
  State some = state_.blank();
  auto writable = some.writable();
  ASSERT_TRUE(ok(read_tensors(store_, 60, std::span(writable).subspan(4, 1))));
  EXPECT_TRUE(std::ranges::equal(writable[4].bytes, tensors[4].bytes));
}

TEST_F(SeveralWriters, OnlyCountPartsOfTheSameStateGenerationAndWriters) {
  deal(2, 1);
  ASSERT_TRUE(ok(write(0)));
  ASSERT_TRUE(ok(write(1)));
  Manifest other = manifest_;
  other.state_hash = std::string(32, '0');
  Parts parts;
  ASSERT_TRUE(ok(find_parts(store_, other, 2, parts)));
  EXPECT_TRUE(parts.empty()) << "another state";
  other = manifest_;
  ++other.generation;
  ASSERT_TRUE(ok(find_parts(store_, other, 2, parts)));
  EXPECT_TRUE(parts.empty()) << "another generation";
  ASSERT_TRUE(ok(find_parts(store_, manifest_, 3, parts)));
  EXPECT_TRUE(parts.empty()) << "another number of writers";
  EXPECT_EQ(found().size(), 2U);
}

TEST_F(SeveralWriters, RefuseToMakeAWholeOfPartsThatAreNone) {
  deal(2, 1);
  ASSERT_TRUE(ok(write(0)));
  EXPECT_THAT(put_manifest_of(store_, manifest_, found()).error().message,
              HasSubstr("the 1 parts of the checkpoint at step 60"));
  ASSERT_TRUE(ok(write(1)));
  Parts parts = found();
  parts.at(1).shards.front().pieces.front().first = parts.at(0).shards.front().pieces.front().first;
  EXPECT_EQ(put_manifest_of(store_, manifest_, parts).error().code, Error::Code::kRefused);
  parts = found();
  parts.at(1).digests.front().bytes[3] ^= std::byte{1};
  EXPECT_THAT(put_manifest_of(store_, manifest_, parts).error().message,
              HasSubstr("the bytes that were written have the hash"));
  EXPECT_FALSE(is_listed(store_, 60));
  parts = found();
  ASSERT_TRUE(ok(store_.remove(parts.at(1).shards.back().key)));
  const auto gone = put_manifest_of(store_, manifest_, parts);
  EXPECT_EQ(gone.error().code, Error::Code::kUnavailable) << "its writer may write it again";
  EXPECT_THAT(gone.error().message, HasSubstr("is missing, though its writer has written it"));
  ASSERT_TRUE(ok(write(1)));
  EXPECT_TRUE(ok(put_manifest_of(store_, manifest_, found())));
}

TEST_F(SeveralWriters, AreSupersededByALaterGeneration) {
  deal(2, 1);
  Manifest later = manifest_;
  later.generation += 2;
  ASSERT_TRUE(ok(write(0)));
  ASSERT_TRUE(ok(write(1)));
  const Parts parts = found();
  ASSERT_TRUE(ok(write_checkpoint(store_, later, state_.tensors())));
  EXPECT_THAT(write(0).error().message, HasSubstr("is superseded"));
  EXPECT_THAT(put_manifest_of(store_, manifest_, parts).error().message, HasSubstr("is superseded"));
  EXPECT_TRUE(holds(store_, 60, state_));
}

TEST_F(SeveralWriters, AnAlteredPartIsNamed) {
  deal(2, 1);
  ASSERT_TRUE(ok(write(1)));
  const std::string key = part_key(60, manifest_.generation, 1);
  Bytes bytes = store_.get(key).value();
  bytes[bytes.size() / 2] ^= std::byte{4};
  ASSERT_TRUE(ok(store_.put(key, bytes)));
  Parts parts;
  const auto read = find_parts(store_, manifest_, 2, parts);
  EXPECT_EQ(read.error().code, Error::Code::kCorrupt);
  EXPECT_THAT(read.error().message, HasSubstr(key));
}

TEST_F(SeveralWriters, LeaveNothingBehindThatIsNotCleanedUp) {
  deal(2, 1);
  ASSERT_TRUE(ok(write(1)));
  const std::vector<int64_t> in_progress{60};
  ASSERT_TRUE(ok(remove_orphans(store_, in_progress)));
  EXPECT_FALSE(keys_with("step-").empty());
  ASSERT_TRUE(ok(remove_orphans(store_, {})));
  EXPECT_TRUE(keys_with("step-").empty());
}

// A shard's bytes are checked against the pieces that the manifest says it holds.
TEST_F(SeveralWriters, AManifestThatNamesOtherPiecesDoesNotVerify) {
  deal(2, 3);
  ASSERT_TRUE(ok(write(0)));
  ASSERT_TRUE(ok(write(1)));
  auto manifest = put_manifest_of(store_, manifest_, found());
  ASSERT_TRUE(ok(manifest));
  for (const auto& [runs, says] : std::vector<std::pair<std::vector<PieceRun>, std::string>>{
           {{{0, 1}}, "its pieces have"}, {{{0, 9999}}, "the state has"}, {{}, "name no pieces in"}}) {
    Manifest wrong = *manifest;
    wrong.shards.front().pieces = runs;
    const std::string text = format_manifest(wrong).value();
    ASSERT_TRUE(ok(store_.put(manifest_key(60), std::as_bytes(std::span(text)))));
    EXPECT_THAT(verify_checkpoint(store_, 60).error().message, HasSubstr(says));
  }
}

}  // namespace
}  // namespace holdfast::storage::testing
