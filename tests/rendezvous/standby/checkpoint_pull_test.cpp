// A service that leads over HTTP, with checkpoints in its folder, and one that pulls them into another.
#include "rendezvous/standby/checkpoint_pull.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>

#include "rendezvous/data_dir/data_set_files.h"
#include "rendezvous/data_dir/object_folders.h"
#include "rendezvous/store/postgresql/reading.h"
#include "rendezvous/text/sha256.h"
#include "storage/checkpoint.h"
#include "tests/rendezvous/api/service_harness.h"
#include "tests/rendezvous/store/engines.h"
#include "tests/rendezvous/store/postgresql_server.h"

namespace holdfast::rendezvous {
namespace {

namespace fs = std::filesystem;

class CheckpointPullTest : public ServiceTest {
 protected:
  CheckpointPullTest() : mine_(folder_ + "/mine") {
    service_.reset();
    term_ = 1;
    start(database_.open());
    begin_training();
  }
  ~CheckpointPullTest() override {
    pull_.reset();
    if (owner_.joinable()) {
      service_->stop();
      owner_.join();
    }
    server_.reset();
    service_.reset();
    watched_.reset();
  }

  // Of some shards; it is in the leader's folder and in the catalogue.
  void writes(int64_t step) {
    std::vector<float> values(16'384);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(std::rand());  // does not pack
    storage::Manifest manifest;
    manifest.job = "j1";
    manifest.step = step;
    manifest.generation = 1;
    const std::vector<storage::ConstTensor> tensors{
        {"w", "float32", {static_cast<int64_t>(values.size())}, std::as_bytes(std::span(values))}};
    const auto written =
        storage::write_checkpoint(**open_objects_folder(folder_, "j1"), manifest, tensors, {.shard_bytes = 16 << 10});
    ASSERT_TRUE(written) << written.error().message;
    CheckpointRecord record = record_of(step);
    record.state_hash = written->state_hash;
    ASSERT_EQ(ask("POST", "/v1/jobs/j1/checkpoints", record, {}, "worker-token").status(), 201);
  }
  // The digest of a data set with one chunk, which the leader keeps.
  std::string pushes(const std::string& chunk) {
    const std::string name = sha256_hex(std::as_bytes(std::span(chunk)));
    EXPECT_EQ(ask_until_answered("PUT", "/v1/data/chunks/" + name, chunk).status(), 204);
    const nlohmann::json manifest = {
        {"format", 1},
        {"chunk_bytes", 4 << 20},
        {"files", {{{"name", "train.bin"}, {"bytes", chunk.size()}, {"chunks", nlohmann::json::array({name})}}}}};
    const Answer pushed = ask_until_answered("PUT", "/v1/data/sets/words", manifest.dump());
    EXPECT_EQ(pushed.status(), 201) << pushed.response->body;
    return pushed.json()["digest"].get<std::string>();
  }
  // From here on the service answers over HTTP, and takes its turns by itself.
  void serve() {
    HttpServerOptions options;
    options.listen = "127.0.0.1:0";
    auto server = HttpServer::start(options, [this](const HttpRequest& head) { return service_->admit(head); });
    ASSERT_TRUE(server) << server.error();
    server_ = *std::move(server);
    owner_ = std::thread([this] { service_->run(); });
    PostgresqlServer::shared().query(
        database_.address(), "UPDATE leadership SET address = 'http://127.0.0.1:" + std::to_string(server_->port()) + "'");
  }
  void pull(double bytes_per_s = 0) {
    pull_ = std::make_unique<CheckpointPull>(PullOptions{mine_, "admin-token", bytes_per_s, 20},
                                             [this] { return open_postgresql_reading(database_.address(), "s2"); });
  }
  bool sees(const std::function<bool(const PullSeen&)>& wanted) {
    for (const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
         std::chrono::steady_clock::now() < until; std::this_thread::sleep_for(std::chrono::milliseconds(5))) {
      if (wanted(pull_->seen())) return true;
    }
    const PullSeen seen = pull_->seen();
    ADD_FAILURE() << seen.there << " of " << seen.wanted << " are here; " << seen.problem;
    return false;
  }
  bool is_whole(int64_t step) const {
    const auto store = open_objects_folder(mine_, "j1");
    return store && storage::verify_checkpoint(**store, step);
  }
  std::vector<fs::path> shards(const std::string& data_dir, int64_t step) const {
    std::vector<fs::path> found;
    std::error_code none;
    for (const auto& entry :
         fs::directory_iterator(objects_folder(data_dir, "j1") + "/" + storage::checkpoint_prefix(step), none)) {
      if (entry.path().extension() == ".hfs") found.push_back(entry.path());
    }
    return found;
  }

  const std::string mine_;
  EngineDatabase database_{Engine::kPostgresql};
  std::unique_ptr<HttpServer> server_;
  std::thread owner_;
  std::unique_ptr<CheckpointPull> pull_;
};

TEST_F(CheckpointPullTest, WhatTheLeaderKeepsIsHereWhole) {
  writes(2);
  writes(4);
  serve();
  pull();
  ASSERT_TRUE(sees([](const PullSeen& seen) { return seen.wanted == 2 && seen.there == 2; }));
  EXPECT_TRUE(is_whole(2));
  EXPECT_TRUE(is_whole(4));
  EXPECT_GT(pull_->seen().pulled_bytes, 100'000);
}

TEST_F(CheckpointPullTest, OneThatIsBrokenOffGoesOnWhereItStopped) {
  writes(2);
  serve();
  pull(8'000);  // a shard of 16 KiB takes two seconds
  for (const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
       shards(mine_, 2).empty() && std::chrono::steady_clock::now() < until;)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  pull_.reset();
  ASSERT_FALSE(is_whole(2));
  std::map<fs::path, fs::file_time_type> written;
  for (const auto& shard : shards(mine_, 2)) written[shard] = fs::last_write_time(shard);
  ASSERT_FALSE(written.empty());
  ASSERT_LT(written.size(), shards(folder_, 2).size());
  pull();
  ASSERT_TRUE(sees([](const PullSeen& seen) { return seen.there == 1; }));
  EXPECT_TRUE(is_whole(2));
  for (const auto& [shard, time] : written) EXPECT_EQ(fs::last_write_time(shard), time) << shard << " was sent again";
}

TEST_F(CheckpointPullTest, DataSetsFollow) {
  const std::string chunk = "the bytes of a chunk", digest = pushes(chunk);
  serve();
  pull();
  ASSERT_TRUE(sees([&](const PullSeen&) { return !DataSetFiles::names_in(mine_).empty(); }));
  pull_.reset();
  DataSetFiles here(mine_);
  const FoundDataSets found = here.load(0);
  EXPECT_TRUE(found.troubles.empty());
  ASSERT_EQ(found.sets.size(), 1u);
  ASSERT_EQ(found.names.size(), 1u);
  EXPECT_EQ(found.names[0].name, "words");
  EXPECT_EQ(found.names[0].digest, digest);
  EXPECT_TRUE(here.get_chunk(sha256_hex(std::as_bytes(std::span(chunk)))));
}

TEST_F(CheckpointPullTest, DataSetsFollowThoughACheckpointIsLostOrAnotherThanTheCatalogueSays) {
  writes(2);
  writes(4);
  fs::remove_all(objects_folder(folder_, "j1") + "/" + storage::checkpoint_prefix(2));
  watched_->begin();
  CheckpointRow other = watched_->load().checkpoints.back();
  other.record.state_hash = std::string(32, '0');
  watched_->save_checkpoint(other);
  watched_->commit();
  pushes("the bytes of a chunk");
  serve();
  pull();
  ASSERT_TRUE(sees([&](const PullSeen& seen) { return !DataSetFiles::names_in(mine_).empty() && !seen.problem.empty(); }));
  EXPECT_EQ(pull_->seen().there, 0);
}

TEST_F(CheckpointPullTest, AShardThatIsDamagedThereIsNotTaken) {
  writes(2);
  writes(4);
  std::fstream file(shards(folder_, 4).front(), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(100);
  file.put('x').put('y');
  file.close();
  serve();
  pull();
  ASSERT_TRUE(sees([](const PullSeen& seen) { return seen.there == 1 && !seen.problem.empty(); }));
  EXPECT_TRUE(is_whole(2)) << "the next one is";
  EXPECT_FALSE(is_whole(4));
}

TEST_F(CheckpointPullTest, OldOnesGoWhereTheCatalogueHasNewer) {
  writes(2);
  fs::create_directories(mine_ + "/checkpoints");
  fs::copy(objects_folder(folder_, "j1"), objects_folder(mine_, "j1"), fs::copy_options::recursive);  // from when it led itself
  const std::string here = objects_folder(mine_, "j1");
  fs::copy(here + "/step-0000000002", here + "/step-0000000009");  // the catalogue was put back from before it
  writes(4);
  watched_->begin();
  watched_->remove_checkpoint("j1", 2);
  watched_->commit();
  serve();
  pull();
  ASSERT_TRUE(sees([](const PullSeen& seen) { return seen.wanted == 1 && seen.there == 1; }));
  EXPECT_TRUE(is_whole(4));
  EXPECT_FALSE(fs::exists(here + "/step-0000000002/manifest.json"));
  EXPECT_TRUE(fs::exists(here + "/step-0000000009/manifest.json")) << "nobody has said that it may go";
}

}  // namespace
}  // namespace holdfast::rendezvous
