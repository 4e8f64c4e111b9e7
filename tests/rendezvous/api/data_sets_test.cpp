// Data sets over the API: pushed, shown, read, replaced, removed, and what comes of them when the service dies in between.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/rendezvous/api/data_sets_harness.h"

namespace holdfast::rendezvous {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

TEST_F(DataSetsTest, APushedChunkIsThereAndVerified) {
  EXPECT_THAT(missing({name_of("one"), name_of("two")}), SizeIs(2));
  EXPECT_EQ(puts_chunk("one").status(), 204);
  EXPECT_EQ(puts_chunk("one").status(), 204) << "a second time";
  EXPECT_THAT(missing({name_of("one"), name_of("two")}), ElementsAre(name_of("two")));
  EXPECT_EQ(gets_chunk("one").response->body, "one");
  EXPECT_EQ(gets_chunk("two").status(), 404);
}

TEST_F(DataSetsTest, BytesThatWereAlteredOnTheWayAreNotKept) {
  const Answer answer = wait_for(send("PUT", "/v1/data/chunks/" + name_of("one"), "not one"));
  EXPECT_EQ(answer.status(), 400);
  EXPECT_EQ(answer.json()["code"], "altered_on_the_way");
  EXPECT_EQ(gets_chunk("one").status(), 404);
  EXPECT_EQ(list()["used_bytes"], 0);
}

TEST_F(DataSetsTest, ADataSetIsMadeOfItsChunksAndReadByNameAndByDigest) {
  ASSERT_EQ(puts_chunk("one").status(), 204);
  const DataManifest manifest{{file_of("train.bin", "one")}};
  const Answer made = puts_set("wiki", manifest);
  ASSERT_EQ(made.status(), 201);
  EXPECT_EQ(made.json()["digest"], manifest.digest());
  EXPECT_EQ(made.json()["bytes"], 3);
  EXPECT_EQ(made.response->headers.at("Location"), "/v1/data/sets/wiki");
  EXPECT_EQ(puts_set("wiki", manifest).status(), 200) << "the same again";
  for (const std::string& asked : {std::string("wiki"), manifest.digest()}) {
    const Answer read = ask_until_answered("GET", "/v1/data/sets/" + asked);
    ASSERT_EQ(read.status(), 200) << asked;
    EXPECT_EQ(read.json()["digest"], manifest.digest());
    EXPECT_EQ(data_manifest_from_json(read.json()["manifest"]), manifest);
  }
}

TEST_F(DataSetsTest, AManifestWhoseChunksAreNotThereIsRefused) {
  const Answer answer = puts_set("wiki", {{file_of("train.bin", "one")}});
  EXPECT_EQ(answer.status(), 409);
  EXPECT_EQ(answer.json()["code"], "chunks_missing");
  EXPECT_THAT(answer.json()["detail"].get<std::string>(), HasSubstr(name_of("one")));
}

TEST_F(DataSetsTest, AJobIsPinnedToWhatHadTheNameWhenItWasSubmitted) {
  const std::string digest = pushes("wiki", "one");
  const Answer job = submits("data:wiki");
  ASSERT_EQ(job.status(), 201) << job.response->body;
  EXPECT_EQ(job.json()["spec"]["train_data_path"], "data:wiki@" + digest + "/train.bin");
}

TEST_F(DataSetsTest, AWorkerHearsOfOthersAndOfChunksToTake) {
  const std::string digest = pushes("wiki", "one"), path = "/v1/data/sets/" + digest + "/holders";
  const auto says = [&](const std::string& worker, const std::string& have) {
    return ask("POST", path, to_json(HoldersRequest{worker, worker + "-1", worker + ":9", have, {}, 8}), {}, "worker-token");
  };
  const HoldersReply first = holders_reply_from_json(says("w1", "0").json());
  EXPECT_THAT(first.take, ElementsAre(0));
  EXPECT_THAT(first.key, SizeIs(32));
  EXPECT_THAT(says("w1", "8").json()["take"], IsEmpty());
  const HoldersReply second = holders_reply_from_json(says("w2", "0").json());
  EXPECT_THAT(second.take, IsEmpty()) << "w1 gives it";
  EXPECT_THAT(second.holders, ElementsAre(Holder{"w1", "w1:9", "8"}));
  EXPECT_EQ(second.key, first.key);
}

TEST_F(DataSetsTest, AWorkerWhoseIncarnationHasEndedIsNoHolder) {
  const std::string digest = pushes("wiki", "one"), path = "/v1/data/sets/" + digest + "/holders";
  const auto says = [&](const std::string& worker, const std::string& have) {
    return ask("POST", path, to_json(HoldersRequest{worker, worker + "-1", worker + ":9", have, {}, 8}), {}, "worker-token");
  };
  for (const char* worker : {"w1", "w2"}) arrives(worker);
  says("w1", "8");
  registers("w1", 2);
  EXPECT_EQ(says("w1", "8").status(), 409);
  const Json reply = says("w2", "0").json();
  EXPECT_THAT(reply["holders"], IsEmpty());
  EXPECT_EQ(reply["take"], Json({0}));
}

TEST_F(DataSetsTest, AWordThatDoesNotFitTheDataSetIsRefused) {
  const std::string digest = pushes("wiki", "one"), path = "/v1/data/sets/" + digest + "/holders";
  const auto status = [&](const HoldersRequest& request) {
    return ask("POST", path, to_json(request), {}, "worker-token").status();
  };
  EXPECT_EQ(status({"w1", "w1-1", "", "0", {}, 8}), 200);
  EXPECT_EQ(status({"w1", "w1-1", "", "00", {}, 8}), 400) << "bits of more chunks than there are";
  EXPECT_EQ(status({"w1", "w1-1", "", "0", {1}, 8}), 400) << "a chunk that is not there";
  EXPECT_EQ(status({"w1", "w1-1", "", "0", {}, 65}), 400) << "more room than anybody has";
  EXPECT_EQ(status({"", "w1-1", "", "0", {}, 8}), 400) << "a worker without a name";
  const Json word = to_json(HoldersRequest{"w1", "w1-1", "", "0", {}, 8});
  EXPECT_EQ(ask("POST", "/v1/data/sets/wiki/holders", word, {}, "worker-token").status(), 404) << "a name is no digest";
}

// --- what the service keeps

TEST_F(DataSetsTest, ARestartLosesNeitherChunksNorDataSetsNorKeys) {
  const std::string digest = pushes("wiki", "one"), path = "/v1/data/sets/" + digest + "/holders";
  ASSERT_EQ(puts_chunk("of a push that has not ended").status(), 204);
  const Json word = to_json(HoldersRequest{"w1", "w1-1", "", "0", {}, 0});
  const std::string key = ask("POST", path, word, {}, "worker-token").json()["key"];
  const Json before = list();
  restart();
  EXPECT_EQ(list(), before);
  EXPECT_EQ(ask("POST", path, word, {}, "worker-token").json()["key"], key);
  EXPECT_EQ(gets_chunk("one").response->body, "one");
  EXPECT_THAT(missing({name_of("one"), name_of("of a push that has not ended")}), IsEmpty());
}

TEST_F(DataSetsTest, APushThatWasCutOffBetweenChunksAndManifestGoesOnAfterARestart) {
  ASSERT_EQ(puts_chunk("one").status(), 204);
  restart();
  EXPECT_EQ(puts_set("wiki", {{file_of("train.bin", "one")}}).status(), 201);
}

TEST_F(DataSetsTest, APushThatWasCutOffBetweenManifestAndNameGoesOnAfterARestart) {
  const std::string digest = pushes("wiki", "one");
  std::filesystem::remove(folder_ + "/data/names/wiki.json");
  restart();
  EXPECT_TRUE(becomes([&] { return !std::filesystem::exists(folder_ + "/data/sets/" + digest + ".json"); }));
  EXPECT_THAT(missing({name_of("one")}), IsEmpty());
  EXPECT_EQ(puts_set("wiki", {{file_of("train.bin", "one")}}).status(), 201);
}

TEST_F(DataSetsTest, ADamagedChunkIsNamedCountsAsMissingAndIsRepairedByAPush) {
  pushes("wiki", "one");
  damage(chunk_file("one"));
  const Answer read = gets_chunk("one");
  EXPECT_EQ(read.status(), 422);
  EXPECT_EQ(read.json()["code"], "corrupt");
  EXPECT_THAT(read.json()["detail"].get<std::string>(), HasSubstr(chunk_file("one")));
  EXPECT_THAT(missing({name_of("one")}), SizeIs(1));
  restart();
  EXPECT_THAT(missing({name_of("one")}), SizeIs(1)) << "after a restart, too";
  pushes("wiki", "one");
  EXPECT_EQ(gets_chunk("one").status(), 200);
}

TEST_F(DataSetsTest, AChunkWhoseFileIsGoneCountsAsMissing) {
  pushes("wiki", "one");
  std::filesystem::remove(chunk_file("one"));
  EXPECT_EQ(gets_chunk("one").status(), 404);
  EXPECT_THAT(missing({name_of("one")}), SizeIs(1));
}

TEST_F(DataSetsTest, ADamagedManifestMakesItsNameUnknownAndAPushBringsItBack) {
  const std::string digest = pushes("wiki", "one");
  damage(folder_ + "/data/sets/" + digest + ".json");
  restart();
  EXPECT_THAT(list()["data_sets"], IsEmpty());
  EXPECT_EQ(submits("data:wiki").status(), 400);
  EXPECT_EQ(pushes("wiki", "one"), digest);
  EXPECT_EQ(submits("data:wiki").status(), 201);
}

TEST_F(DataSetsTest, WithoutDataSetsThereIsNoFolderForThem) {
  EXPECT_THAT(list()["data_sets"], IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/data"));
}

// --- the limit

TEST_F(DataSetsTest, AtTheLimitAChunkIsRefusedWithWhatToDo) {
  data_limit_bytes_ = 5;
  restart();
  ASSERT_EQ(puts_chunk("one").status(), 204);
  const Answer answer = puts_chunk("two");
  EXPECT_EQ(answer.status(), 507);
  EXPECT_EQ(answer.json()["code"], "no_space");
  for (const char* words : {"--data_limit_gib", "holdfast data rm", "pushes that have not ended"})
    EXPECT_THAT(answer.json()["detail"].get<std::string>(), HasSubstr(words));
  EXPECT_EQ(puts_chunk("2").status(), 204) << "one that fits";
  EXPECT_EQ(list()["limit_bytes"], 5);
}

TEST_F(DataSetsTest, AtTheLimitChunksOfAPushThatEndedADayAgoMakeRoom) {
  data_limit_bytes_ = 5;
  restart();
  ASSERT_EQ(puts_chunk("one").status(), 204);
  clock_.ms += ChunkShelf::kKeptMs;
  EXPECT_EQ(puts_chunk("two").status(), 503) << "they are just going";
  EXPECT_TRUE(becomes([&] { return list()["used_bytes"] == 0; }));
  EXPECT_EQ(puts_chunk("two").status(), 204);
}

// --- removal

TEST_F(DataSetsTest, ARemovedDataSetTakesAlongTheChunksThatNoOtherNeeds) {
  for (const char* bytes : {"one", "two"}) ASSERT_EQ(puts_chunk(bytes).status(), 204);
  ASSERT_EQ(puts_set("wiki", {{file_of("train.bin", "one"), file_of("val.bin", "two")}}).status(), 201);
  ASSERT_EQ(puts_set("code", {{file_of("train.bin", "one")}}).status(), 201);
  EXPECT_EQ(ask_until_answered("DELETE", "/v1/data/sets/wiki").status(), 204);
  EXPECT_TRUE(becomes([&] { return list()["used_bytes"] == 3; }));
  EXPECT_TRUE(std::filesystem::exists(chunk_file("one")));
  EXPECT_FALSE(std::filesystem::exists(chunk_file("two")));
  EXPECT_EQ(ask_until_answered("DELETE", "/v1/data/sets/wiki").status(), 404);
  EXPECT_EQ(ask_until_answered("GET", "/v1/data/sets/code").status(), 200);
}

TEST_F(DataSetsTest, ADataSetThatAnOpenJobUsesIsNotRemoved) {
  pushes("wiki", "one");
  ASSERT_EQ(submits("data:wiki").status(), 201);
  const Answer refused = ask_until_answered("DELETE", "/v1/data/sets/wiki");
  EXPECT_EQ(refused.status(), 409);
  EXPECT_EQ(refused.json()["code"], "in_use");
  EXPECT_THAT(refused.json()["detail"].get<std::string>(), HasSubstr("j1"));
  EXPECT_EQ(list()["data_sets"][0]["jobs"], Json({"j1"}));
  ASSERT_EQ(ask("POST", "/v1/jobs/j1/stop").status(), 202);
  EXPECT_EQ(ask_until_answered("DELETE", "/v1/data/sets/wiki").status(), 204);
}

TEST_F(DataSetsTest, AReplacedDataSetStaysAsLongAsAJobUsesIt) {
  const std::string before = pushes("wiki", "one");
  ASSERT_EQ(submits("data:wiki").status(), 201);
  const std::string after = pushes("wiki", "two");
  EXPECT_EQ(list()["data_sets"].size(), 2U);
  EXPECT_EQ(ask_until_answered("GET", "/v1/data/sets/" + before).status(), 200);
  EXPECT_EQ(gets_chunk("one").status(), 200);
  const Answer pinned = submits("data:wiki@" + before);
  EXPECT_EQ(pinned.status(), 201) << "a job may name it by its digest";
  EXPECT_EQ(submits("data:wiki").json()["spec"]["train_data_path"], "data:wiki@" + after + "/train.bin");
  restart();
  EXPECT_EQ(list()["data_sets"].size(), 2U) << "after a restart, too";
  for (const char* job : {"j1", "j2"}) ASSERT_EQ(ask("POST", std::string("/v1/jobs/") + job + "/stop").status(), 202);
  passes(2000);
  EXPECT_TRUE(becomes([&] { return list()["used_bytes"] == 3; }));
  EXPECT_EQ(ask_until_answered("GET", "/v1/data/sets/" + before).status(), 404);
}

TEST_F(DataSetsTest, AReplacedDataSetThatNobodyUsesGoes) {
  pushes("wiki", "one");
  pushes("wiki", "two");
  EXPECT_TRUE(becomes([&] { return list()["used_bytes"] == 3; }));
  EXPECT_FALSE(std::filesystem::exists(chunk_file("one")));
}

// --- jobs

TEST_F(DataSetsTest, AJobThatNamesWhatIsNotThereIsRefusedWithTheField) {
  pushes("wiki", std::string(10'000, 'x'), 5000, 255);
  const auto detail = [&](const std::string& train, const Json& changes = Json::object()) {
    const Answer answer = submits(train, changes);
    EXPECT_EQ(answer.status(), 400);
    EXPECT_EQ(answer.json()["errors"][0]["field"], "train_data_path");
    return answer.json()["detail"].get<std::string>();
  };
  EXPECT_THAT(detail("data:wikki"), HasSubstr("did you mean wiki?"));
  EXPECT_THAT(detail("data:wiki/test.bin"), HasSubstr("it has train.bin"));
  EXPECT_THAT(detail("data:wiki", {{"vocab_size", 200}}), HasSubstr("255"));
  EXPECT_THAT(detail("wiki:0.5,data:nothing:0.5"), HasSubstr("nothing"));
}

TEST_F(DataSetsTest, APinnedSpecThatCouldNotBeReadAgainIsRefused) {
  pushes("wiki", "one");
  const Answer fine = submits("data:wiki:350.1234,data:wiki/train.bin:120.5678");
  EXPECT_EQ(fine.status(), 201) << fine.response->body;
  EXPECT_THAT(fine.json()["spec"]["train_data_path"].get<std::string>(), HasSubstr(":175.0617,"));
  const Answer longer = submits("data:wiki:1,/" + std::string(4060, 'a') + ":1");  // with a digest it is too long
  EXPECT_EQ(longer.status(), 400) << longer.response->body;
  EXPECT_THAT(longer.json()["detail"].get<std::string>(), HasSubstr("train_data_path"));
  restart();
  EXPECT_EQ(ask("GET", "/v1/jobs").json()["jobs"].size(), 1U);
}

TEST_F(DataSetsTest, ADryRunShowsThePinAndAPlanNeedsNone) {
  const std::string digest = pushes("wiki", "one");
  Json body = spec();
  body["train_data_path"] = "data:wiki";
  const Answer tried = ask("POST", "/v1/jobs?dry_run=1", body);
  ASSERT_EQ(tried.status(), 200);
  EXPECT_EQ(tried.json()["spec"]["train_data_path"], "data:wiki@" + digest + "/train.bin");
  body["train_data_path"] = "data:nothing";
  EXPECT_EQ(ask("POST", "/v1/plan", {{"spec", body}, {"microbatch_s", 0.1}}).status(), 200);
}

TEST_F(DataSetsTest, AnOpenJobWhoseDataSetIsGoneIsTold) {
  pushes("wiki", "one");
  ASSERT_EQ(submits("data:wiki").status(), 201);
  std::filesystem::remove_all(folder_ + "/data");
  restart();
  service_->turn();
  EXPECT_THAT(event_kinds(), testing::Contains("data_set_missing"));
  EXPECT_EQ(show()["state"], "queued");
}

TEST_F(DataSetsTest, WorkersThatWereRefusedForWantOfASetTryAgainWhenItIsThereAgain) {
  pushes("wiki", "one");
  ASSERT_EQ(submits("data:wiki", {{"min_nodes", 1}}).status(), 201);
  std::filesystem::remove_all(folder_ + "/data");
  restart();
  arrives("w1");
  ASSERT_EQ(directive("w1"), "prepare 0");
  reports("w1", Phase::kRefused);
  reports("w1", Phase::kIdle);
  ASSERT_EQ(directive("w1"), "idle 0");
  passes(50'000);
  arrives("w1");
  reports("w1", Phase::kIdle);
  EXPECT_EQ(directive("w1"), "idle 0");
  pushes("wiki", "one");
  EXPECT_EQ(directive("w1"), "prepare 0");
}

TEST_F(DataSetsTest, AFileMayNotHaveTheNameOfOneThatWorkersKeepBesideIt) {
  ASSERT_EQ(puts_chunk("one").status(), 204);
  const Answer refused = puts_set("wiki", {{file_of("have", "one")}});
  EXPECT_EQ(refused.status(), 400);
  EXPECT_THAT(refused.response->body, HasSubstr("workers keep a file have of their own"));
}

TEST_F(DataSetsTest, RolesAreThoseOfTheDescription) {
  const Json names = {{"chunks", Json::array()}};
  EXPECT_EQ(ask("POST", "/v1/data/missing", names, {}, "worker-token").status(), 403);
  EXPECT_EQ(ask("GET", "/v1/data/sets", nullptr, {}, "worker-token").status(), 403);
  EXPECT_EQ(ask("DELETE", "/v1/data/sets/wiki", nullptr, {}, "worker-token").status(), 403);
}

}  // namespace
}  // namespace holdfast::rendezvous
