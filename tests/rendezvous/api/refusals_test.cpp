// Workers that a job has refused: until when, and what is said meanwhile.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/rendezvous/api/service_harness.h"

namespace holdfast::rendezvous {
namespace {

using Json = nlohmann::json;

class RefusalsTest : public ServiceTest {
 protected:
  void refuses(const std::string& worker) {
    WorkerStatus refused;
    refused.incarnation = worker + "-1";
    refused.phase = Phase::kRefused;
    refused.job = "j1";
    refused.reason = "cannot open train.bin";
    ask("POST", "/v1/workers/" + worker + "/status", refused);
    reports(worker, Phase::kIdle);
  }
  // Heartbeats go on meanwhile; w1 trains in generation 2.
  void passes_with_heartbeats(const std::string& worker, int64_t s) {
    for (int64_t i = 0; i < s; ++i) {
      passes(1000);
      reports("w1", Phase::kActive, 2, 0);
      reports(worker, Phase::kIdle);
    }
  }
};

TEST_F(RefusalsTest, ARefusalEndsWithTheLifeThatWasRefused) {
  begin_training();
  refuses("w2");
  EXPECT_EQ(show()["refused"][0]["worker"], "w2");
  arrives("w2", 2);
  EXPECT_EQ(show()["refused"], Json::array());
  EXPECT_EQ(directive("w2", 2), "prepare 1");
}

TEST_F(RefusalsTest, AWorkerThatWasRefusedIsOfferedAgainAfterAPauseThatGrows) {
  begin_training();
  refuses("w2");
  reports("w1", Phase::kPrepared, 1, 0);
  ASSERT_EQ(directive("w1"), "join 2");
  for (const int64_t pause_s : {60, 120}) {
    passes_with_heartbeats("w2", pause_s - 10);
    EXPECT_EQ(directive("w2"), "idle 0");
    EXPECT_EQ(show()["refused"][0]["reason"], "cannot open train.bin");
    passes_with_heartbeats("w2", 20);
    EXPECT_EQ(directive("w2"), "prepare 2") << "its volume may be mounted now";
    EXPECT_EQ(show()["refused"], Json::array());
    refuses("w2");
  }
}

TEST_F(RefusalsTest, AServiceThatIsStartedAgainHasForgottenThatAWorkerIsRefusedForAWhile) {
  begin_training();
  refuses("w2");
  EXPECT_EQ(show()["refused"].size(), 1);
  restart();
  reports("w1", Phase::kPrepared, 1, 0);
  reports("w2", Phase::kIdle);
  EXPECT_EQ(show()["refused"], Json::array());
  EXPECT_THAT(directive("w2"), testing::StartsWith("prepare"));
}

}  // namespace
}  // namespace holdfast::rendezvous
