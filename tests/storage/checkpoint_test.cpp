// Checkpoints in a folder: round trips, other models, inconsistent manifests, retention.
#include <atomic>
#include <filesystem>
#include <functional>
#include <numeric>

#include "storage/checksum.h"
#include "storage/manifest.h"
#include "storage/open_store.h"
#include "storage/state_hash.h"
#include "tests/storage/checks.h"
#include "tests/storage/memory_store.h"
#include "tests/storage/temporary_folder.h"

namespace holdfast::storage::testing {
namespace {

class Checkpoints : public ::testing::Test {
 protected:
  Result<Manifest> write(int64_t step, const State& state, int64_t shard_bytes = 4001, int threads = 1,
                         int64_t generation = 1) {
    return write_checkpoint(*store_, manifest_at(step, generation), state.tensors(),
                            {.shard_bytes = shard_bytes, .threads = threads});
  }

  TemporaryFolder folder_;
  std::unique_ptr<ObjectStore> store_ = std::move(*open_directory_store(folder_.path()));
};

TEST_F(Checkpoints, ComeBackAtEveryShardSizeAndNumberOfThreads) {
  const State state(1);
  for (const int64_t shard_bytes : {1, 2, 3, 4, 7, 150, 1001, 4096, 1 << 20}) {
    if (shard_bytes < 100 && shard_bytes != 7) continue;  // more files would test nothing else
    for (const int threads : {1, 3}) {
      SCOPED_TRACE("shards of " + std::to_string(shard_bytes) + " bytes, " + std::to_string(threads) + " threads");
      const State small(1, 5, 7);
      const State& written = shard_bytes < 100 ? small : state;
      ASSERT_TRUE(ok(write(shard_bytes, written, shard_bytes, threads)));
      EXPECT_TRUE(holds(*store_, shard_bytes, written));
      EXPECT_TRUE(ok(verify_checkpoint(*store_, shard_bytes, threads)));
      State found = written.blank();
      const auto writable = found.writable();
      ASSERT_TRUE(ok(read_checkpoint(*store_, shard_bytes, writable, threads)));
      EXPECT_TRUE(found == written);
    }
  }
}

TEST_F(Checkpoints, SayWhatTheyHold) {
  const State state(1);
  const auto written = write(60, state);
  ASSERT_TRUE(ok(written));
  const auto read = read_manifest(*store_, 60);
  ASSERT_TRUE(ok(read));
  EXPECT_EQ(read->job, "j1");
  EXPECT_EQ(read->step, 60);
  EXPECT_EQ(read->generation, 1);
  EXPECT_EQ(read->written_by, this_writer());
  EXPECT_EQ(read->spec, manifest_at(60).spec);
  EXPECT_EQ(read->data, manifest_at(60).data);
  EXPECT_EQ(read->created_at.size(), std::string("2026-11-20T16:46:00Z").size());
  EXPECT_EQ(read->state_hash, state_hash(state.tensors()));
  EXPECT_EQ(read->tensors.size(), state.tensors().size());
  EXPECT_EQ(read->raw_bytes(), written->raw_bytes());
  EXPECT_LT(read->stored_bytes(), read->raw_bytes() + 2000);
}

TEST_F(Checkpoints, HashTheDigestsOfPiecesInOrder) {
  std::vector<float> longer(2 * kPieceElements + 7), shorter(3);
  std::iota(longer.begin(), longer.end(), 1.0F);
  const auto bytes = std::as_bytes(std::span(longer));
  const std::vector<ConstTensor> tensors{{"a", "float32", {2 * kPieceElements + 7}, bytes},
                                         {"none", "float32", {0}, {}},
                                         {"b", "float32", {3}, std::as_bytes(std::span(shorter))}};
  constexpr size_t kPiece = kPieceElements * sizeof(float);
  Bytes digests;
  for (const auto piece : {bytes.first(kPiece), bytes.subspan(kPiece, kPiece), bytes.subspan(2 * kPiece), tensors[2].bytes}) {
    const auto digest = checksum_128(piece);
    digests.insert(digests.end(), digest.begin(), digest.end());
  }
  EXPECT_EQ(state_hash(tensors), checksum_hex(digests));
  EXPECT_EQ(checksum_hex({}), "99aa06d3014798d86001c324468d497f") << "what xxh128sum says of nothing";
}

TEST_F(Checkpoints, HashBytesThatComeInParts) {
  const State state(1);
  std::vector<TensorInfo> infos;
  Bytes all;
  for (const ConstTensor& tensor : state.tensors()) {
    infos.push_back({tensor.name, tensor.dtype, tensor.shape, static_cast<int64_t>(tensor.bytes.size())});
    all.insert(all.end(), tensor.bytes.begin(), tensor.bytes.end());
  }
  for (const size_t part : {size_t{1}, size_t{7}, size_t{4096}, all.size()}) {
    StateHasher bytes(StateHasher::Version::kBytes, infos), pieces(StateHasher::Version::kPieces, infos);
    for (size_t at = 0; at < all.size(); at += part) {
      const auto next = std::span(all).subspan(at, std::min(part, all.size() - at));
      bytes.add(next);
      pieces.add(next);
    }
    EXPECT_EQ(bytes.hex(), checksum_hex(all));
    EXPECT_EQ(pieces.hex(), state_hash(state.tensors()));
  }
  StateHasher none(StateHasher::Version::kPieces, {});
  EXPECT_EQ(none.hex(), checksum_hex({}));
}

// As releases wrote them whose manifests are of format version 1: the hash is of the state's bytes.
TEST_F(Checkpoints, OfFormatVersion1AreReadAndVerified) {
  const State state(1);
  Bytes all;
  for (const ConstTensor& tensor : state.tensors()) all.insert(all.end(), tensor.bytes.begin(), tensor.bytes.end());
  auto manifest = write(60, state);
  ASSERT_TRUE(ok(manifest));
  const auto put = [&](const std::string& hash) {
    manifest->format_version = 1;
    manifest->state_hash = hash;
    const auto text = format_manifest(*manifest);
    return store_->put(manifest_key(60), std::as_bytes(std::span(*text)));
  };
  ASSERT_TRUE(ok(put(checksum_hex(all))));
  EXPECT_TRUE(holds(*store_, 60, state));
  EXPECT_TRUE(ok(verify_checkpoint(*store_, 60, 2)));
  EXPECT_EQ(read_manifest(*store_, 60)->format_version, 1);
  ASSERT_TRUE(ok(put(state_hash(state.tensors()))));
  EXPECT_FALSE(verify_checkpoint(*store_, 60)) << "the hash of another version";
}

TEST_F(Checkpoints, HaveTheSameShardsForTheSameBytesAtAnyNumberOfThreads) {
  const State state(1);
  const auto one = write(60, state, 3000, 1), four = write(60, state, 3000, 4);
  ASSERT_TRUE(ok(one) && ok(four));
  for (size_t i = 0; i < one->shards.size(); ++i) EXPECT_EQ(one->shards[i].key, four->shards[i].key);
}

TEST_F(Checkpoints, WithoutTensorsHaveNoShards) {
  const auto written = write_checkpoint(*store_, manifest_at(0), {});
  ASSERT_TRUE(ok(written));
  EXPECT_TRUE(written->shards.empty());
  EXPECT_TRUE(ok(verify_checkpoint(*store_, 0)));
}

TEST_F(Checkpoints, OfAnotherModelAreRefusedWithTheFirstDifferences) {
  ASSERT_TRUE(ok(write(60, State(1))));
  State other(1, 37, 64);
  const auto writable = other.writable();
  const auto read = read_checkpoint(*store_, 60, writable);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, Error::Code::kRefused);
  const std::string& message = read.error().message;
  EXPECT_NE(message.find("is of another model (n_layer 2, n_embd 53)"), std::string::npos) << message;
  EXPECT_NE(message.find("its wte.weight is float32 (37, 53), this one's float32 (37, 64)"), std::string::npos) << message;
  EXPECT_NE(message.find("more"), std::string::npos) << message;
}

TEST_F(Checkpoints, WithTensorsTooManyOrTooFewAreRefused) {
  ASSERT_TRUE(ok(write(60, State(1))));
  State mine(1);
  auto fewer = mine.writable();
  fewer.erase(fewer.begin());
  EXPECT_NE(read_checkpoint(*store_, 60, fewer).error().message.find("this one has no wte.weight"), std::string::npos);
  auto renamed = mine.writable();
  renamed[1].name = "h.7.bias";
  EXPECT_NE(read_checkpoint(*store_, 60, renamed).error().message.find("it has no h.7.bias"), std::string::npos);
  auto typed = mine.writable();
  typed[1].dtype = "int32";
  EXPECT_EQ(read_tensors(*store_, 60, typed).error().code, Error::Code::kRefused);
}

TEST_F(Checkpoints, AreNotFoundWhereThereAreNone) {
  const auto read = read_manifest(*store_, 7);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, Error::Code::kNotFound);
  EXPECT_NE(read.error().message.find("no checkpoint at step 7 in " + folder_.path()), std::string::npos)
      << read.error().message;
}

TEST_F(Checkpoints, AreNotWrittenFromTensorsThatDoNotFitTheirShape) {
  const Bytes bytes(12);
  const auto refused = [&](const ConstTensor& tensor) {
    const auto written = write_checkpoint(*store_, manifest_at(1), {{tensor}});
    EXPECT_FALSE(written);
    return written ? std::string() : written.error().message;
  };
  EXPECT_EQ(refused({"a", "float32", {4}, bytes}), "tensor a (float32) has 12 bytes, expected 16 from its shape");
  EXPECT_NE(refused({"a", "float64", {3}, bytes}).find("a known type"), std::string::npos);
  EXPECT_NE(refused({"a", "float32", {-3}, bytes}).find("a possible shape"), std::string::npos);
  EXPECT_NE(refused({"a", "float32", {int64_t{1} << 40, int64_t{1} << 40}, bytes}).find("a possible shape"), std::string::npos);
  const ConstTensor fine{"a", "float32", {3}, bytes};
  EXPECT_FALSE(write_checkpoint(*store_, manifest_at(1), std::vector{fine, fine})) << "two of one name";
  EXPECT_FALSE(write_checkpoint(*store_, manifest_at(-1), std::vector{fine}));
  EXPECT_FALSE(write_checkpoint(*store_, manifest_at(1), std::vector{fine}, {.shard_bytes = 0}));
  EXPECT_TRUE(store_->list("")->empty());
}

TEST_F(Checkpoints, AreListedByStepAndOnlyWithAManifest) {
  for (const int64_t step : {100, 20, 3}) ASSERT_TRUE(ok(write(step, State(1))));
  ASSERT_TRUE(ok(store_->put("step-0000000050/shard-0000-x.hfs", {})));
  ASSERT_TRUE(ok(store_->put("step-x/manifest.json", {})));
  ASSERT_TRUE(ok(store_->put("notes/step-0000000060/manifest.json", {})));
  EXPECT_EQ(list_checkpoints(*store_).value(), (std::vector<int64_t>{3, 20, 100}));
}

// Edits a manifest, makes its checksum fit again, so that the checks behind the checksum are reached, and parses it. Returns
// the error; "" for none.
std::string parse_problem(const std::function<void(nlohmann::json&)>& edit, const std::string& text) {
  nlohmann::json json = nlohmann::json::parse(text);
  json.erase("checksum");
  edit(json);
  std::string body = json.dump(1).substr(2);
  const std::string file = "{\"checksum\": \"" + checksum_hex(std::as_bytes(std::span(body))) + "\",\n" + body;
  const auto parsed = parse_manifest(std::as_bytes(std::span(file)), "the manifest", 60);
  return parsed ? "" : parsed.error().message;
}

TEST_F(Checkpoints, WithAnInconsistentManifestAreRefusedWithTheField) {
  const auto written = write(60, State(1));
  ASSERT_TRUE(ok(written));
  const std::string text = *format_manifest(*written);
  using nlohmann::json;
  const auto problem = [&](const std::function<void(json&)>& edit) { return parse_problem(edit, text); };
  EXPECT_EQ(problem([](json&) {}), "");
  EXPECT_EQ(problem([](json& j) { j["new_field"] = 1; }), "") << "fields may be added within a version";
  EXPECT_EQ(problem([](json& j) { j.erase("job"); }), "the manifest: \"job\" is missing");
  EXPECT_EQ(problem([](json& j) { j["step"] = 61; }), "the manifest: \"step\" is 61, expected 60");
  EXPECT_EQ(problem([](json& j) { j["step"] = 60.5; }), "the manifest: \"step\" is 60.5, expected an integer of 0 or more");
  EXPECT_EQ(problem([](json& j) { j["generation"] = -1; }),
            "the manifest: \"generation\" is -1, expected an integer of 0 or more");
  EXPECT_EQ(problem([](json& j) { j["generation"] = 0xffffffffffffffffU; }).find("the manifest: \"generation\" is"), 0U);
  EXPECT_EQ(problem([](json& j) { j["state_hash"] = "F00"; }).find("the manifest: \"state_hash\" is \"F00\""), 0U);
  EXPECT_EQ(problem([](json& j) { j["tensors"] = 1; }), "the manifest: \"tensors\" is not an array");
  EXPECT_NE(problem([](json& j) { j["tensors"][0]["bytes"] = 3; }).find("wte.weight (float32) has 3 bytes"), std::string::npos);
  EXPECT_NE(problem([](json& j) { j["tensors"][0]["dtype"] = "float8"; }).find("a known type"), std::string::npos);
  EXPECT_NE(problem([](json& j) {
              j["tensors"][0]["shape"] = {int64_t{1} << 62, 8};
            }).find("a possible shape"),
            std::string::npos);
  EXPECT_NE(problem([](json& j) { j["tensors"].push_back(j["tensors"][0]); }).find("wte.weight twice"), std::string::npos);
  EXPECT_NE(problem([](json& j) { j["shards"].erase(0); }).find("\"shards\""), std::string::npos);
  EXPECT_NE(problem([](json& j) { j["shards"][0]["key"] = "step-0000000060/../../etc"; }).find("expected a name"),
            std::string::npos);
  EXPECT_NE(problem([](json& j) { j["shards"][0]["key"] = "step-0000000061/shard"; }).find("expected a name"),
            std::string::npos);
  EXPECT_NE(problem([](json& j) { j["shards"][0]["raw_bytes"] = int64_t{1} << 50; }).find("are possible"), std::string::npos);
  EXPECT_NE(problem([](json& j) { j["shards"][0]["raw_bytes"] = 3999; }).find("inside an element"), std::string::npos);
}

TEST_F(Checkpoints, OfANewerFormatAreRefusedWithTheirWriter) {
  const auto written = write(60, State(1));
  ASSERT_TRUE(ok(written));
  const std::string message = parse_problem(
      [](nlohmann::json& json) {
        json = {{"format_version", 3}, {"written_by", "holdfast 0.9.1"}};
      },
      *format_manifest(*written));
  EXPECT_EQ(message, "the manifest: is of format version 3, written by holdfast 0.9.1; " + this_writer() +
                         " reads up to version 2: use the one that wrote it, or a newer one");
}

TEST_F(Checkpoints, OfAHigherGenerationAreNotReplaced) {
  ASSERT_TRUE(ok(write(60, State(1), 4001, 1, 5)));
  const auto stale = write(60, State(2), 4001, 1, 4);
  ASSERT_FALSE(stale);
  EXPECT_EQ(stale.error().code, Error::Code::kRefused);
  EXPECT_NE(stale.error().message.find("written by generation 5, this writer belongs to generation 4"), std::string::npos);
  EXPECT_TRUE(holds(*store_, 60, State(1)));
  EXPECT_TRUE(ok(write(60, State(2), 4001, 1, 6)));
  EXPECT_TRUE(holds(*store_, 60, State(2)));
}

TEST_F(Checkpoints, AreWrittenOverAManifestThatNoLongerReads) {
  ASSERT_TRUE(ok(store_->put(manifest_key(60), Bytes(10))));
  EXPECT_TRUE(is_listed(*store_, 60)) << "so that verify names it";
  EXPECT_FALSE(verify_checkpoint(*store_, 60));
  ASSERT_TRUE(ok(write(60, State(1))));
  EXPECT_TRUE(holds(*store_, 60, State(1)));
}

TEST(Retention, KeepsTheNewestAndAllThatAreNotBelowAVerifiedOne) {
  const std::vector<int64_t> steps{10, 20, 30, 40, 50};
  using Steps = std::vector<int64_t>;
  EXPECT_EQ(retention_victims(steps, 2, 50), (Steps{10, 20, 30}));
  EXPECT_EQ(retention_victims(steps, 1, 50), (Steps{10, 20, 30, 40}));
  EXPECT_EQ(retention_victims(steps, 5, 50), Steps{});
  EXPECT_EQ(retention_victims(steps, 9, 50), Steps{});
  EXPECT_EQ(retention_victims(steps, 0, 50), Steps{}) << "0 keeps all";
  EXPECT_EQ(retention_victims(steps, -3, 50), Steps{});
  EXPECT_EQ(retention_victims(steps, 2, 20), Steps{10}) << "20 is the newest that is known to be good";
  EXPECT_EQ(retention_victims(steps, 2, -1), Steps{}) << "none is known to be good";
  EXPECT_EQ(retention_victims({}, 2, 50), Steps{});
  EXPECT_EQ(retention_victims(steps, 2, 50, Steps{20, 7}), (Steps{10, 30})) << "20 is needed; there is no 7";
  EXPECT_EQ(retention_victims(steps, 2, 50, Steps{50}), (Steps{10, 20, 30})) << "one that is needed takes no other's place";
}

TEST_F(Checkpoints, LeaveNothingBehindWhenTheyAreRemoved) {
  ASSERT_TRUE(ok(write(10, State(1))));
  ASSERT_TRUE(ok(write(20, State(2))));
  ASSERT_TRUE(ok(remove_checkpoint(*store_, 10)));
  ASSERT_TRUE(ok(remove_checkpoint(*store_, 10)));
  EXPECT_TRUE(holds(*store_, 20, State(2)));
  EXPECT_FALSE(std::filesystem::exists(folder_.path() + "/step-0000000010"));
}

// A store that removes a checkpoint when a reader asks for its first shard.
class Vanishing : public MemoryStore {
 public:
  Result<Bytes> get(const std::string& key) override {
    const bool shard = key.find("shard") != std::string::npos;
    EXPECT_TRUE(!shard || ok(remove_checkpoint(*this, 10)));
    return MemoryStore::get(key);
  }
};

TEST(Retention, OfACheckpointThatIsBeingReadIsNotReportedAsDamage) {
  Vanishing store;
  ASSERT_TRUE(ok(write_checkpoint(store, manifest_at(10, 1), State(1).tensors(), {.shard_bytes = 4001, .threads = 1})));
  const auto verified = verify_checkpoint(store, 10, 1);
  ASSERT_FALSE(verified);
  EXPECT_EQ(verified.error().code, Error::Code::kNotFound);
  EXPECT_NE(verified.error().message.find("was removed while it was read"), std::string::npos) << verified.error().message;
}

// A store that tells its reader to stop while the reader waits for the first shard.
class Stopping : public MemoryStore {
 public:
  Result<Bytes> get(const std::string& key) override {
    const bool shard = key.find("shard") != std::string::npos;
    shards += shard ? 1 : 0;
    stop = stop || shard;
    return MemoryStore::get(key);
  }
  std::atomic<int> shards = 0;
  std::atomic<bool> stop = false;
};

TEST(Reading, EndsWithTheShardThatIsBeingReadWhenItIsToldToStop) {
  Stopping store;
  const State state(1);
  ASSERT_TRUE(ok(write_checkpoint(store, manifest_at(10, 1), state.tensors(), {.shard_bytes = 401, .threads = 1})));
  ASSERT_GT(read_manifest(store, 10)->shards.size(), 20U);
  State found = state.blank();
  const auto writable = found.writable();
  for (const int threads : {1, 3}) {
    store.shards = 0;
    EXPECT_EQ(verify_checkpoint(store, 10, threads, &store.stop).error().code, Error::Code::kUnavailable);
    EXPECT_LE(store.shards, threads);
    store.shards = 0;
    store.stop = false;
    EXPECT_EQ(read_checkpoint(store, 10, writable, threads, &store.stop).error().code, Error::Code::kUnavailable);
    EXPECT_LE(store.shards, threads);
  }
}

TEST(Reading, OfAFileInAFolderEndsWhenItIsToldToStop) {
  const TemporaryFolder folder;
  std::atomic<bool> stop = false;
  const auto store = open_store(folder.path(), "", {.stop = &stop});
  ASSERT_TRUE(ok(store));
  ASSERT_TRUE(ok((*store)->put("a", Bytes(3))));
  EXPECT_TRUE(ok((*store)->get("a")));
  stop = true;
  EXPECT_EQ((*store)->get("a").error().code, Error::Code::kUnavailable);
  EXPECT_TRUE(ok((*store)->put("b", Bytes(3)))) << "what is written is";
}

TEST_F(Checkpoints, OrphansAreRemovedExceptOfStepsBeingWritten) {
  ASSERT_TRUE(ok(write(10, State(1))));
  ASSERT_TRUE(ok(write(10, State(2))));  // the shards of the first write are orphans now
  ASSERT_TRUE(ok(store_->put("step-0000000020/shard-0000-a.hfs", Bytes(3))));
  ASSERT_TRUE(ok(store_->put("step-0000000030/shard-0000-a.hfs", Bytes(3))));
  ASSERT_TRUE(ok(store_->put("step-0000000040/manifest.json", Bytes(3))));
  ASSERT_TRUE(ok(store_->put("step-0000000040/shard-0000-a.hfs", Bytes(3))));
  folder_.write_file("step-0000000020/.tmp-0123456789abcdef", "half a shard");
  folder_.write_file("step-0000000030/.tmp-0123456789abcdef", "half a shard");
  const size_t shards = read_manifest(*store_, 10)->shards.size();
  const std::vector<int64_t> in_progress{30};
  const auto removed = remove_orphans(*store_, in_progress);
  ASSERT_TRUE(ok(removed));
  EXPECT_EQ(removed->size(), shards + 2);
  EXPECT_TRUE(holds(*store_, 10, State(2)));
  EXPECT_EQ(store_->list("step-0000000020")->size(), 0U);
  EXPECT_EQ(store_->list("step-0000000030")->size(), 1U);
  EXPECT_TRUE(std::filesystem::exists(folder_.path() + "/step-0000000030/.tmp-0123456789abcdef"));
  EXPECT_EQ(store_->list("step-0000000040")->size(), 2U) << "a manifest that does not read is evidence, not garbage";
}

}  // namespace
}  // namespace holdfast::storage::testing
