// Jobs that leave the division of their state open: what is chosen for the memory of their workers, and for how long it stands.
#include <gmock/gmock.h>

#include "tests/rendezvous/api/service_queue_harness.h"

namespace holdfast::rendezvous {
namespace {

using testing::HasSubstr;

constexpr double kGib = 1 << 30;

class ShardChoiceTest : public QueueTest {
 protected:
  void arrives_with_memory(const std::string& worker, double gib, int life = 1) {
    RegisterRequest request;
    request.name = worker;
    request.incarnation = worker + "-" + std::to_string(life);
    request.address = worker + ":1";
    request.numerics = "avx512";
    request.device = "cpu";
    request.memory_limit_bytes = static_cast<int64_t>(gib * kGib);
    EXPECT_EQ(ask("POST", "/v1/workers", request, {}, "worker-token").status(), 200);
    reports(worker, Phase::kIdle, 0, -1, life);
  }
  // "prepare none"
  std::string told(const std::string& worker, int life = 1) {
    const Answer answer = ask("GET", "/v1/workers/" + worker + "/directive?incarnation=" + worker + "-" + std::to_string(life));
    if (answer.status() != 200 || answer.json()["spec"].is_null()) return "nothing of a job";
    return answer.json()["kind"].get<std::string>() + " " + answer.json()["spec"]["shard"].get<std::string>();
  }
  // The messages of the events shard_chosen.
  std::vector<std::string> choices() {
    std::vector<std::string> messages;
    const Json events = ask("GET", "/v1/jobs/j1/events?limit=1000").json()["events"];
    for (const Json& event : events)
      if (event["kind"] == "shard_chosen") messages.push_back(event["message"]);
    return messages;
  }
  std::string submit_small(Json changes = Json::object()) {
    Json fields = {{"model", "small"}, {"shard", "auto"}, {"min_nodes", 2}, {"nodes", 4}, {"replicas", 1}};
    fields.update(changes);
    return submit(fields);
  }
};

TEST_F(ShardChoiceTest, FitsAllWorkersOfTheFirstGeneration) {
  const std::string job = submit_small();
  EXPECT_EQ(show(job)["shard"], nullptr);
  arrives_with_memory("w1", 64);
  EXPECT_EQ(told("w1"), "prepare none") << "it is all that there is to go by";
  arrives_with_memory("w2", 3.5);
  EXPECT_EQ(told("w1"), "prepare optimizer");
  EXPECT_EQ(told("w2"), "prepare optimizer");
  EXPECT_EQ(show(job)["shard"], "optimizer");
  EXPECT_EQ(show(job)["spec"]["shard"], "auto");
  EXPECT_THAT(choices(),
              testing::ElementsAre(
                  "none: it fits the memory of w1",
                  testing::MatchesRegex("optimizer: with 2 workers none needs [3-9].[0-9]* GiB, and w2 may take 3.50 GiB")));
}

TEST_F(ShardChoiceTest, AWorkerWithLessMemoryChangesItWhileNobodyHoldsAState) {
  const std::string job = submit_small();
  for (const char* worker : {"w1", "w2"}) arrives_with_memory(worker, 64);
  EXPECT_EQ(told("w1"), "prepare none");
  reports("w1", Phase::kPrepared);
  arrives_with_memory("w3", 3.5);
  EXPECT_EQ(told("w1"), "prepare optimizer");
  reports("w2", Phase::kPrepared);
  reports("w3", Phase::kPrepared);
  EXPECT_EQ(told("w2"), "prepare optimizer") << "w1 is not ready for that yet, and is waited for";
  reports("w1", Phase::kPrepared);
  EXPECT_EQ(told("w1"), "join optimizer");
  EXPECT_THAT(choices(), testing::ElementsAre("none: it fits the memory of w1", HasSubstr("optimizer: with 2 workers")));
}

TEST_F(ShardChoiceTest, StandsWhileAStateIsHeldAndThroughARestart) {
  const std::string job = submit_small({{"min_nodes", 2}});
  arrives_with_memory("w1", 64);
  arrives_with_memory("w2", 64);
  for (const char* worker : {"w1", "w2"}) reports(worker, Phase::kPrepared);
  for (const char* worker : {"w1", "w2"}) reports(worker, Phase::kActive, 1, 0);
  EXPECT_EQ(told("w1"), "join none");
  restart();
  EXPECT_EQ(show(job)["shard"], "none");
  arrives_with_memory("w3", 3.5);
  for (const char* worker : {"w1", "w2"}) reports(worker, Phase::kActive, 1, 0);
  arrives_with_memory("w4", 3.5);
  EXPECT_EQ(told("w4"), "prepare none") << "a worker that it is too much for refuses it";
  EXPECT_EQ(told("w1"), "join none");
  EXPECT_EQ(choices().size(), 1U);
}

TEST_F(ShardChoiceTest, IsMadeAnewForAJobThatBeginsFromACheckpointWithOthers) {
  const std::string job = submit_small();
  for (const char* worker : {"w1", "w2"}) arrives_with_memory(worker, 64);
  for (const char* worker : {"w1", "w2"}) reports(worker, Phase::kPrepared);
  for (const char* worker : {"w1", "w2"}) reports(worker, Phase::kActive, 1, 0);
  EXPECT_EQ(ask("POST", "/v1/jobs/" + job + "/pause").status(), 202);
  for (const char* worker : {"w1", "w2"}) reports(worker, Phase::kPrepared, 1, 0);
  EXPECT_EQ(state(job), "paused");
  for (const char* worker : {"w1", "w2"}) reports(worker, Phase::kIdle);
  for (const char* worker : {"w1", "w2"}) ask("POST", std::string("/v1/workers/") + worker + "/drain");
  for (const char* worker : {"w3", "w4"}) arrives_with_memory(worker, 3.5);
  EXPECT_EQ(ask("POST", "/v1/jobs/" + job + "/resume").status(), 202);
  EXPECT_EQ(told("w3"), "prepare optimizer");
  EXPECT_EQ(show(job)["shard"], "optimizer");
}

}  // namespace
}  // namespace holdfast::rendezvous
