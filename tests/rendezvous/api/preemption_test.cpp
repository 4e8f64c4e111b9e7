// Preemption and the order of jobs, as people see them, and over restarts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/rendezvous/api/service_queue_harness.h"

namespace holdfast::rendezvous {
namespace {

using testing::Contains;
using testing::HasSubstr;
using PreemptionTest = QueueTest;

TEST_F(PreemptionTest, AHigherPriorityPreemptsAndTheOtherComesBackByItself) {
  arrives("w1");
  const std::string low = submit({{"nodes", 1}});
  trains("w1", low);
  ask("POST", "/v1/jobs/j1/progress", said_by("w1", 1));
  const std::string high = submit({{"nodes", 1}, {"priority", 5}});
  EXPECT_EQ(directive("w1"), "yield 1");
  EXPECT_THAT(reason(high), HasSubstr("1 is being freed for it"));
  ask("POST", "/v1/jobs/j1/checkpoints", record_by("w1", 2));
  reports("w1", Phase::kPrepared, 1, 2);
  EXPECT_EQ(state(low), "waiting");
  EXPECT_THAT(reason(low), HasSubstr("preempted by j2 (priority 5): waiting for 1 more worker: 1 needed, 0 there"));
  EXPECT_EQ(waits_for(low)["kind"], "preemption");
  EXPECT_EQ(waits_for(low)["job"], high);
  EXPECT_EQ(show(low)["preemptions"], 1);
  EXPECT_EQ(directive("w1"), "idle 0");
  restart();
  registers("w1");
  EXPECT_THAT(reason(low), HasSubstr("preempted by j2 (priority 5)")) << "a restart remembers it";
  reports("w1", Phase::kIdle);
  EXPECT_EQ(directive("w1"), "prepare 0");
  trains("w1", high);
  EXPECT_EQ(state(high), "running");
  ask("POST", "/v1/jobs/j2/stop");
  ask("POST", "/v1/jobs/j2/checkpoints", record_by("w1", 1));
  reports("w1", Phase::kPrepared, 1, 1, 1, high);
  EXPECT_EQ(state(high), "cancelled");
  EXPECT_THAT(reason(low), HasSubstr("preempted by j2 (priority 5), which has ended since: waiting for 1 more worker"));
  reports("w1", Phase::kIdle);
  reports("w1", Phase::kPrepared, 0, -1, 1, low);
  EXPECT_EQ(directive("w1"), "join 2");
  EXPECT_EQ(show(low)["step"], 2);
  EXPECT_EQ(show(low)["restarts"], 0);
}

TEST_F(PreemptionTest, ADryRunSaysWhomTheJobWouldPreemptAndDoesNothing) {
  arrives("w1");
  const std::string low = submit({{"nodes", 1}, {"max_nodes", 1}});
  trains("w1", low);
  const auto would = [&](int64_t priority) {
    Json body = spec();
    body.update({{"nodes", 1}, {"priority", priority}});
    return ask("POST", "/v1/jobs?dry_run=1", body).json()["would"].get<std::string>();
  };
  EXPECT_EQ(would(0), "wait: it needs 1 worker, and 0 of 1 are free");
  EXPECT_EQ(would(5), "begin when others have made room: it preempts j1");
  EXPECT_EQ(directive("w1"), "join 1");
  arrives("w2");
  EXPECT_THAT(would(5), HasSubstr("begin at once: 1 of 2 workers are free"));
}

TEST_F(PreemptionTest, APreemptionThatIsNotNeededAnyMoreIsWithdrawn) {
  arrives("w1");
  const std::string low = submit({{"nodes", 1}, {"max_nodes", 1}});
  reports("w1", Phase::kPrepared, 0, -1, 1, low);  // its generation has formed, and the worker has not joined
  const std::string high = submit({{"nodes", 1}, {"max_nodes", 1}, {"priority", 5}});
  EXPECT_THAT(event_kinds(low), Contains("preemption_asked"));
  arrives("w2");
  EXPECT_EQ(directive("w2"), "prepare 0") << "for " << high;
  EXPECT_THAT(event_kinds(low), Contains("preemption_withdrawn"));
  reports("w1", Phase::kActive, 1, 0, 1, low);
  EXPECT_EQ(directive("w1"), "join 1");
  EXPECT_EQ(show(low)["preemptions"], 0);
}

TEST_F(PreemptionTest, APreemptionEndsWithTheJobThatNeededIt) {
  arrives("w1");
  const std::string low = submit({{"nodes", 1}, {"max_nodes", 1}});
  reports("w1", Phase::kPrepared, 0, -1, 1, low);
  const std::string high = submit({{"nodes", 1}, {"priority", 5}});
  ask("POST", "/v1/jobs/" + high + "/stop");
  EXPECT_THAT(event_kinds(low), Contains("preemption_withdrawn"));
  reports("w1", Phase::kActive, 1, 0, 1, low);
  EXPECT_EQ(directive("w1"), "join 1");
}

TEST_F(PreemptionTest, ThePauseAfterAPreemptionThatFailedOutlivesTheService) {
  arrives("w1");
  const std::string low = submit({{"nodes", 1}, {"max_nodes", 1}});
  trains("w1", low);
  ask("POST", "/v1/jobs/j1/progress", said_by("w1", 1));
  submit({{"nodes", 1}, {"priority", 5}});
  ASSERT_EQ(directive("w1"), "yield 1");
  reports("w1", Phase::kPrepared, 1, 2);  // no checkpoint was written
  ASSERT_EQ(directive("w1"), "join 2");
  reports("w1", Phase::kActive, 2, 2);
  restart();
  registers("w1");
  reports("w1", Phase::kActive, 2, 2);
  EXPECT_EQ(directive("w1"), "join 2");
  passes(280'000);
  reports("w1", Phase::kActive, 2, 2);
  EXPECT_EQ(directive("w1"), "join 2");
  passes(21'000);
  reports("w1", Phase::kActive, 2, 2);
  EXPECT_EQ(directive("w1"), "yield 2");
}

TEST_F(PreemptionTest, HowLongAJobHasWaitedOutlivesTheService) {
  arrives("w1");
  submit({{"nodes", 1}, {"max_nodes", 1}});
  trains("w1", "j1");
  const std::string patient = submit({{"nodes", 2}, {"min_nodes", 2}});
  passes(400'000);
  reports("w1", Phase::kActive, 1, 0);
  restart();
  registers("w1");
  reports("w1", Phase::kActive, 1, 0);
  passes(201'000);
  reports("w1", Phase::kActive, 1, 0);
  submit({{"nodes", 1}, {"max_nodes", 1}});
  arrives("w2");
  EXPECT_EQ(ask("GET", "/v1/nodes").json()["nodes"][1]["job"], patient) << "the younger one does not overtake it";
}

}  // namespace
}  // namespace holdfast::rendezvous
