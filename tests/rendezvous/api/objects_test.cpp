// Checkpoint objects that the service keeps: they are whole and fenced, and lie in folders that are made once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <span>

#include "rendezvous/api/answers/answers.h"
#include "rendezvous/http/work_pool.h"
#include "storage/checksum.h"
#include "tests/rendezvous/api/service_harness.h"

namespace holdfast::rendezvous {
namespace {

using testing::HasSubstr;
using Json = nlohmann::json;

constexpr const char* kShard = "/v1/jobs/j1/objects/step-0000000010/shard-0000.hfs";

TEST_F(ServiceTest, ObjectsAreKeptWholeAndKeysChecked) {
  ask("POST", "/v1/jobs", spec());
  const std::string path = "/v1/jobs/j1/objects/step-0000000010/shard-0000.hfs";
  EXPECT_EQ(ask_until_answered("GET", path).status(), 404);
  EXPECT_EQ(ask_until_answered("PUT", path, std::string("a\0b", 3)).status(), 204);
  EXPECT_EQ(ask_until_answered("GET", path).response->body, std::string("a\0b", 3));
  EXPECT_EQ(ask_until_answered("GET", "/v1/jobs/j1/objects?prefix=step-0000000010").json()["keys"],
            Json({"step-0000000010/shard-0000.hfs"}));
  EXPECT_EQ(ask_until_answered("DELETE", path).status(), 204);
  EXPECT_EQ(ask_until_answered("DELETE", path).status(), 204);
  EXPECT_EQ(ask_until_answered("GET", path).status(), 404);
  for (const char* key : {"../../admin.token", "a//b", "a/..", "%00", ""}) {
    EXPECT_EQ(ask_until_answered("PUT", std::string("/v1/jobs/j1/objects/") + key, "x").status(), 400) << key;
  }
  EXPECT_EQ(ask_until_answered("PUT", "/v1/jobs/j9/objects/x", "x").status(), 404);
  EXPECT_EQ(send("PUT", path, "x", {}, "")->status(), 401);
}

TEST_F(ServiceTest, ACheckpointWhoseManifestIsRemovedLeavesTheCatalogue) {
  begin_training();
  for (const int64_t step : {10, 20}) ask("POST", "/v1/jobs/j1/checkpoints", record_of(step));
  EXPECT_EQ(ask_until_answered("DELETE", "/v1/jobs/j1/objects/step-0000000010/manifest.json").status(), 204);
  const Json left = ask("GET", "/v1/jobs/j1/checkpoints").json()["checkpoints"];
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(left[0]["step"], 20);
}

TEST_F(ServiceTest, ALifeThatIsOverChangesNoObjects) {
  begin_training();
  const auto call = [this](const std::string& method, const std::string& incarnation) {
    const auto answer = send(method, kShard, "bytes", {{"holdfast-worker", "w2"}, {"holdfast-incarnation", incarnation}});
    while (!answer->there()) service_->turn();
    return answer->answer();
  };
  EXPECT_EQ(call("PUT", "w2-1").status(), 204);
  WorkerLost lost;
  lost.incarnation = "w2-1";
  ask("POST", "/v1/workers/lost", lost);
  for (const char* method : {"PUT", "DELETE"}) {
    const Answer answer = call(method, "w2-1");
    EXPECT_EQ(answer.status(), 409) << method;
    EXPECT_EQ(answer.json()["code"], "stale_incarnation");
  }
  EXPECT_EQ(call("GET", "w2-1").response->body, "bytes");
  EXPECT_EQ(call("PUT", "w1-1").status(), 204);
}

TEST_F(ServiceTest, AnObjectThatWasAlteredOnTheWayIsNotKept) {
  ask("POST", "/v1/jobs", spec());
  const auto put = [this](const std::string& body) {
    const auto answer =
        send("PUT", kShard, body, {{"holdfast-checksum", storage::checksum_hex(std::as_bytes(std::span("bytes", 5)))}});
    while (!answer->there()) service_->turn();
    return answer->answer();
  };
  const Answer refused = put("bites");
  EXPECT_EQ(refused.status(), 400);
  EXPECT_EQ(refused.json()["code"], "altered_on_the_way");
  EXPECT_EQ(ask_until_answered("GET", kShard).status(), 404);
  EXPECT_EQ(put("bytes").status(), 204);
  EXPECT_EQ(ask_until_answered("GET", kShard).response->body, "bytes");
}

TEST_F(ServiceTest, AFolderThatVanishedIsReportedAndNotMadeAgain) {
  ask("POST", "/v1/jobs", spec());
  const std::string folder = folder_ + "/checkpoints/j1";
  ASSERT_TRUE(std::filesystem::is_directory(folder)) << "made with the job";
  std::filesystem::remove_all(folder);
  for (const char* method : {"PUT", "GET", "DELETE"}) {
    const Answer answer = ask_until_answered(method, kShard, "bytes");
    EXPECT_EQ(answer.status(), 503) << method;
    EXPECT_THAT(answer.json()["detail"], HasSubstr("has vanished")) << method;
  }
  EXPECT_FALSE(std::filesystem::exists(folder));
}

TEST_F(ServiceTest, AJobWhoseFolderCannotBeMadeIsNotSubmitted) {
  std::ofstream(folder_ + "/checkpoints") << "a file where the folders should be";
  EXPECT_EQ(ask("POST", "/v1/jobs", spec()).status(), 503);
  EXPECT_EQ(ask("GET", "/v1/jobs").json()["jobs"].size(), 0u);
}

TEST_F(ServiceTest, UnfinishedObjectsOfAKilledServiceAreRemovedAtItsStart) {
  ask("POST", "/v1/jobs", spec());
  ASSERT_EQ(ask_until_answered("PUT", kShard, "bytes").status(), 204);
  const std::string unfinished = folder_ + "/checkpoints/j1/step-0000000010/.tmp-0123456789abcdef";
  std::ofstream(unfinished) << "half";
  restart();
  EXPECT_FALSE(std::filesystem::exists(unfinished));
  EXPECT_EQ(ask_until_answered("GET", kShard).response->body, "bytes");
}

TEST(StorageProblems, SayWhetherAnotherTryHelps) {
  using Code = storage::Error::Code;
  const std::tuple<Code, int, std::string> cases[] = {{Code::kNotFound, 404, "not_found"},
                                                      {Code::kCorrupt, 422, "corrupt"},
                                                      {Code::kUnavailable, 503, "unavailable"},
                                                      {Code::kNoSpace, 507, "no_space"},
                                                      {Code::kRefused, 400, "refused"}};
  for (const auto& [code, status, name] : cases) {
    const Problem problem = storage_problem({code, "why"});
    EXPECT_EQ(problem.status, status);
    EXPECT_EQ(problem.code, name);
  }
}

TEST(WorkPool, APieceOfWorkThatThrowsStopsNoOther) {
  std::vector<std::string> said;
  {
    WorkPool pool(1, 8);
    pool.post([] { throw std::runtime_error("no memory"); }, [&](const std::string& why) { said.push_back(why); });
    pool.post([&] { said.emplace_back("next"); }, [](const std::string&) {});
  }
  EXPECT_EQ(said, (std::vector<std::string>{"no memory", "next"}));
}

}  // namespace
}  // namespace holdfast::rendezvous
