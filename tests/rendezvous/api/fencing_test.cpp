// Reports of members whose generation has ended: which are refused, and which still count. tests/sim found most of these cases.
#include "tests/rendezvous/api/service_harness.h"

namespace holdfast::rendezvous {
namespace {

// A leader among several services that is cut off from all workers at once: the next leader would have to believe it.
TEST_F(ServiceTest, ALeaderToWhomNobodyComesAnyMoreEndsNobodysLeaseBeforeItCouldBeReplaced) {
  term_ = 1;
  restart();
  begin_training();
  for (int second = 0; second < 5; ++second) passes(1000);
  EXPECT_EQ(show()["state"], "running") << "somebody came, and nobody is lost";
  for (const char* worker : {"w1", "w2"}) EXPECT_EQ(reports(worker, Phase::kActive, 1, 0).status(), 200);
  for (int second = 0; second < 12; ++second) passes(1000);
  EXPECT_NE(show()["state"], "running") << "they are gone indeed";
}

TEST_F(ServiceTest, ALeaderToWhomOthersComeEndsTheLeaseOfOneThatDoesNot) {
  term_ = 1;
  restart();
  begin_training();
  for (int second = 0; second < 4; ++second) {
    clock_.ms += 1000;
    reports("w1", Phase::kActive, 1, 0);
  }
  const auto nodes = ask("GET", "/v1/nodes").json()["nodes"];
  EXPECT_EQ(nodes[0]["state"], "alive");
  EXPECT_EQ(nodes[1]["state"], "lost");
}

TEST_F(ServiceTest, ALeaderThatHearsFewOfItsWorkersWaitsForTheOthersAsLongAsItCouldBeReplaced) {
  term_ = 1;
  restart();
  for (const char* worker : {"w1", "w2", "w3", "w4"}) arrives(worker);
  const auto lost = [&] {
    std::string names;
    const auto nodes = ask("GET", "/v1/nodes").json()["nodes"];
    for (const auto& node : nodes)
      if (node["state"] == "lost") names += node["id"].get<std::string>();
    return names;
  };
  const auto second_in_which_one_reports = [&] {
    clock_.ms += 1000;
    reports("w1", Phase::kIdle);
  };
  for (int second = 0; second < 5; ++second) second_in_which_one_reports();
  EXPECT_EQ(lost(), "") << "it may be the service";
  for (const char* worker : {"w2", "w3"}) reports(worker, Phase::kIdle);
  second_in_which_one_reports();
  EXPECT_EQ(lost(), "w4") << "of most it hears";
  for (int second = 0; second < 6; ++second) second_in_which_one_reports();
  EXPECT_EQ(lost(), "w2w3w4") << "nobody has replaced it";
}

// The next leader may have taken j2, and told its client.
TEST_F(ServiceTest, ADeposedLeaderTellsNobodyThatThereIsNoSuchJob) {
  term_ = 1;
  restart();
  begin_training();
  EXPECT_EQ(ask("POST", "/v1/jobs/j2/stop").status(), 404);
  watched_->is_deposed = true;
  EXPECT_EQ(reports("w1", Phase::kActive, 1, 0).status(), 200) << "workers know terms";
  const Answer answer = ask("POST", "/v1/jobs/j2/stop");
  EXPECT_EQ(answer.status(), 503);
  EXPECT_NE(answer.response->body.find("another service leads"), std::string::npos) << answer.response->body;
  EXPECT_EQ(ask("GET", "/v1/jobs").status(), 503);
}

TEST_F(ServiceTest, StepsThatAWorkerComputedAfterItsJobWasPausedWithoutItDoNotCount) {
  begin_training();
  EXPECT_EQ(ask("POST", "/v1/jobs/j1/progress", progress_to(3)).status(), 204);
  for (int second = 0; second < 4; ++second) passes(1000);  // no worker reaches the service
  EXPECT_EQ(ask("POST", "/v1/jobs/j1/pause").status(), 202);
  ASSERT_EQ(show()["state"], "paused");
  EXPECT_EQ(ask("POST", "/v1/jobs/j1/progress", progress_to(8, 4)).json()["code"], "wrong_state");
  EXPECT_EQ(ask("POST", "/v1/jobs/j1/progress", progress_to(3)).status(), 204) << "its answer was lost";
  EXPECT_EQ(ask("GET", "/v1/jobs/j1/ledger").json()["steps"].size(), 3u);
}

TEST_F(ServiceTest, ALateFaultReportIsRefusedAndStillBecomesAnEvent) {
  begin_training();
  reports("w1", Phase::kPrepared, 1, 5);
  reports("w2", Phase::kPrepared, 1, 5);
  ASSERT_EQ(directive("w1"), "join 2");
  FaultReport late;
  late.worker = "w2";
  late.incarnation = "w2-1";
  late.generation = 1;
  late.suspect_rank = 0;
  late.kind = "connection_lost";
  late.detail = "a wrong checksum from rank 0";
  EXPECT_EQ(ask("POST", "/v1/jobs/j1/faults", late).status(), 409);
  EXPECT_EQ(directive("w1"), "join 2") << "it changes nothing";
  const auto events = ask("GET", "/v1/jobs/j1/events").json()["events"];
  EXPECT_EQ(events.back()["message"], "more on the end of generation 1: w2 says: a wrong checksum from rank 0");
}

}  // namespace
}  // namespace holdfast::rendezvous
