// A worker that dies again and again, as people see it: it is held back, an event says so, and a restart changes neither.
#include <gmock/gmock.h>

#include "tests/rendezvous/api/service_harness.h"

namespace holdfast::rendezvous {
namespace {

class FlappingTest : public ServiceTest {
 protected:
  // A job that w1 may begin alone.
  void is_ready_to_begin() {
    arrives("w1");
    nlohmann::json job = spec();
    job["min_nodes"] = 1;
    ask("POST", "/v1/jobs", job);
    reports("w1", Phase::kPrepared);
  }
  void dies(const std::string& worker, int life) {
    WorkerLost lost;
    lost.incarnation = worker + "-" + std::to_string(life);
    lost.reason = "killed by signal 11 (SIGSEGV)";
    ask("POST", "/v1/workers/lost", lost);
  }
  nlohmann::json node(const std::string& worker) {
    const nlohmann::json nodes = ask("GET", "/v1/nodes").json()["nodes"];
    for (const auto& node : nodes) {
      if (node["id"] == worker) return node;
    }
    return nullptr;
  }
};

TEST_F(FlappingTest, ItIsGivenNoWorkUntilItsPauseIsOverAndPeopleSeeWhy) {
  is_ready_to_begin();
  for (int life = 1; life <= 4; ++life) {
    arrives("w2", life);
    EXPECT_EQ(node("w2")["job"], "j1") << "life " << life;
    passes(1000);
    dies("w2", life);
    reports("w1", Phase::kActive, 1, 0);
  }
  EXPECT_THAT(event_kinds(), testing::Contains("worker_held_back").Times(1));
  arrives("w2", 5);
  EXPECT_TRUE(node("w2")["job"].is_null());
  EXPECT_EQ(node("w2")["state"], "alive");
  EXPECT_GT(node("w2")["held_back_s"], 4.0);
  EXPECT_THAT(node("w2")["held_back_reason"].get<std::string>(), testing::HasSubstr("w2 was lost 4 times in a row"));
  restart();
  reports("w1", Phase::kActive, 1, 0);
  reports("w2", Phase::kIdle, 0, -1, 5);
  EXPECT_TRUE(node("w2")["job"].is_null()) << "a restart of the service forgives nothing";
  for (int i = 0; i < 6; ++i) {
    passes(1000);
    reports("w1", Phase::kActive, 1, 0);
    reports("w2", Phase::kIdle, 0, -1, 5);
  }
  EXPECT_EQ(node("w2")["job"], "j1");
  EXPECT_TRUE(node("w2")["held_back_s"].is_null());
}

TEST_F(FlappingTest, OneThatDiesWhileItIsDrainedIsStillDrainedWhenItIsBack) {
  is_ready_to_begin();
  reports("w1", Phase::kActive, 1, 0);
  ASSERT_EQ(ask("POST", "/v1/nodes/w1/drain").status(), 202);
  dies("w1", 1);
  restart();
  arrives("w1", 2);
  EXPECT_EQ(ask("GET", "/v1/workers/w1/directive?incarnation=w1-2").json()["kind"], "exit");
  EXPECT_EQ(node("w1")["state"], "draining");
  passes(60'000);  // it has gone, as it was told to
  arrives("w1", 3);
  EXPECT_EQ(node("w1")["state"], "alive") << "somebody started it again";
}

}  // namespace
}  // namespace holdfast::rendezvous
