// What members of a generation that is over may still say, and what of it counts. Most of these were found by tests/sim.
#include "tests/rendezvous/service_harness.h"

namespace holdfast::rendezvous {
namespace {

TEST_F(ServiceTest, StepsThatAWorkerComputedAfterItsJobWasPausedWithoutItDoNotCount) {
  begin_training();
  EXPECT_EQ(ask("POST", "/v1/jobs/j1/progress", progress_to(3)).status(), 204);
  for (int second = 0; second < 4; ++second) passes(1000);  // nobody reaches the service any more
  EXPECT_EQ(ask("POST", "/v1/jobs/j1/pause").status(), 202);
  ASSERT_EQ(show()["state"], "paused");
  EXPECT_EQ(ask("POST", "/v1/jobs/j1/progress", progress_to(8, 4)).json()["code"], "wrong_state");
  EXPECT_EQ(ask("POST", "/v1/jobs/j1/progress", progress_to(3)).status(), 204) << "its answer was lost";
  EXPECT_EQ(ask("GET", "/v1/jobs/j1/ledger").json()["steps"].size(), 3u);
}

}  // namespace
}  // namespace holdfast::rendezvous
