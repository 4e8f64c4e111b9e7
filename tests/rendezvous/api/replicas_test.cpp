// Jobs whose divided state is to be on more or fewer workers from now on.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "tests/rendezvous/api/service_queue_harness.h"

namespace holdfast::rendezvous {
namespace {

using testing::HasSubstr;

class ReplicasTest : public QueueTest {
 protected:
  void begin(Json changes = Json::object()) {
    for (const char* worker : {"w1", "w2", "w3"}) arrives(worker);
    Json fields = {{"shard", "optimizer"}, {"nodes", 3}, {"gradient_accumulation_steps", 2}};
    fields.update(changes);
    job_ = submit(fields);
    for (const char* worker : {"w1", "w2", "w3"}) reports(worker, Phase::kPrepared);
    all_report(Phase::kActive, 1, 0);
  }
  void all_report(Phase phase, int64_t generation, int64_t step) {
    for (const char* worker : {"w1", "w2", "w3"}) reports(worker, phase, generation, step);
  }
  Answer scaled(const Json& body) { return ask("POST", "/v1/jobs/" + job_ + "/scale", body); }
  // "join 2" of "generation replicas"
  std::string told(const std::string& worker) {
    Json directive = ask("GET", "/v1/workers/" + worker + "/directive?incarnation=" + worker + "-1").json();
    const std::string replicas = directive["spec"].is_null() ? "" : directive["spec"]["replicas"].dump();
    return fmt::format("{} {}{}{}", directive["kind"].get<std::string>(), directive["generation"].get<int>(),
                       replicas.empty() ? "" : " replicas ", replicas);
  }
  std::string refusal(const Json& body, int status) {
    const Answer answer = scaled(body);
    EXPECT_EQ(answer.status(), status) << answer.response->body;
    return answer.json()["detail"];
  }
  std::string job_;
};

TEST_F(ReplicasTest, AreChangedByANewGenerationThatLosesNothing) {
  begin();
  EXPECT_EQ(told("w1"), "join 1 replicas 2");
  EXPECT_EQ(scaled({{"replicas", 3}}).status(), 202);
  EXPECT_EQ(told("w1"), "yield 1");
  EXPECT_EQ(show(job_)["wanted"]["replicas"], 3);
  all_report(Phase::kPrepared, 1, 4);
  EXPECT_EQ(told("w1"), "join 2 replicas 3");
  EXPECT_THAT(show(job_)["reason"].get<std::string>(), HasSubstr("generation 2"));
  EXPECT_EQ(show(job_)["spec"]["replicas"], 2);
  all_report(Phase::kActive, 2, 4);
  EXPECT_EQ(told("w1"), "join 2 replicas 3") << "and that is all";
  EXPECT_EQ(scaled({{"replicas", 3}}).status(), 202);
  EXPECT_EQ(told("w1"), "join 2 replicas 3") << "nothing changes";
}

TEST_F(ReplicasTest, AreRememberedThroughARestartBeforeTheNextGenerationAndAfter) {
  begin();
  scaled({{"replicas", 1}});
  restart();
  all_report(Phase::kActive, 1, 3);
  EXPECT_EQ(told("w1"), "yield 1");
  all_report(Phase::kPrepared, 1, 4);
  EXPECT_EQ(told("w2"), "join 2 replicas 1");
  restart();
  all_report(Phase::kActive, 2, 4);
  EXPECT_EQ(told("w2"), "join 2 replicas 1");
}

TEST_F(ReplicasTest, AreRefusedByNameWhereTheyCannotBe) {
  begin();
  EXPECT_THAT(refusal({{"replicas", 0}}, 400), HasSubstr("replicas: must be a whole number from 1 on, not 0"));
  EXPECT_THAT(refusal({{"replicas", "two"}}, 400), HasSubstr("from 1 on, not \"two\""));
  EXPECT_THAT(refusal({{"replicas", 4}, {"max_nodes", 3}}, 400),
              HasSubstr("replicas: 4 is above the workers that the job may have, 3: choose at most 3, or raise max_nodes"));
  EXPECT_EQ(told("w1"), "join 1 replicas 2");
  ask("POST", "/v1/jobs/" + job_ + "/stop");
  all_report(Phase::kPrepared, 1, 4);
  EXPECT_THAT(refusal({{"replicas", 3}}, 409), HasSubstr("only one that has not ended can be scaled"));
}

TEST_F(ReplicasTest, AreOfDividedJobsAlone) {
  begin({{"shard", "none"}});
  EXPECT_THAT(refusal({{"replicas", 3}}, 409), HasSubstr("the state of job j1 is not divided among its workers (shard none)"));
}

TEST_F(ReplicasTest, AreRefusedWhereAWorkerHasTooLittleMemory) {
  for (const char* worker : {"w1", "w2", "w3"}) {
    RegisterRequest request;
    request.name = worker;
    request.incarnation = worker + std::string("-1");
    request.address = worker + std::string(":1");
    request.numerics = "avx512";
    request.device = "cpu";
    request.memory_limit_bytes = static_cast<int64_t>(2.5 * (1 << 30));
    ask("POST", "/v1/workers", request, {}, "worker-token");
    reports(worker, Phase::kIdle);
  }
  job_ = submit({{"shard", "gradients"}, {"model", "small"}, {"nodes", 3}, {"min_nodes", 3}, {"replicas", 1}});
  EXPECT_THAT(refusal({{"replicas", 3}}, 409),
              testing::MatchesRegex("replicas 3: with 3 workers gradients needs .* GiB, and w1 may "
                                    "take 2.50 GiB: choose fewer"));
}

}  // namespace
}  // namespace holdfast::rendezvous
