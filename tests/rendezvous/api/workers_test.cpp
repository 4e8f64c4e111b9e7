// Workers and the service: directives by long-poll, leases, fencing, the ledger, and the state after a restart.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/rendezvous/api/service_harness.h"

namespace holdfast::rendezvous {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsSupersetOf;
using testing::Not;
using Json = nlohmann::json;

TEST_F(ServiceTest, AnotherProtocolVersionIsRefusedWithBothNumbers) {
  RegisterRequest request;
  request.name = "w1";
  request.incarnation = "w1-1";
  request.protocol_version = 7;
  const Answer answer = ask("POST", "/v1/workers", request);
  EXPECT_EQ(answer.status(), 400);
  EXPECT_THAT(answer.json()["detail"], HasSubstr("protocol version 7"));
}

TEST_F(ServiceTest, UnknownFieldsOfWorkersAreTolerated) {
  registers("w1");
  Json status = WorkerStatus{};
  status["incarnation"] = "w1-1";
  status["mood"] = "fine";
  EXPECT_EQ(ask("POST", "/v1/workers/w1/status", status).status(), 200);
}

TEST_F(ServiceTest, AnUnknownWorkerIsToldToRegisterAndAReplacedOneThatItIs) {
  EXPECT_EQ(reports("w1", Phase::kIdle).status(), 404);
  registers("w1", 1);
  EXPECT_EQ(reports("w1", Phase::kIdle, 0, -1, 2).status(), 404) << "a life that was never registered";
  registers("w1", 2);
  const Answer old = reports("w1", Phase::kIdle, 0, -1, 1);
  EXPECT_EQ(old.status(), 409);
  EXPECT_EQ(old.json()["code"], "superseded");
  EXPECT_EQ(registers("w1", 1).status(), 409);
}

TEST_F(ServiceTest, ALongPollIsAnsweredInTheTurnInWhichItsDirectiveChanges) {
  arrives("w1");
  const std::string tag = reports("w1", Phase::kIdle).json()["directive_tag"];
  const auto poll = send("GET", "/v1/workers/w1/directive?incarnation=w1-1&wait_ms=25000&have=" + tag);
  service_->turn();
  EXPECT_EQ(poll->status(), 0);
  ask("POST", "/v1/jobs", spec());
  ASSERT_EQ(poll->status(), 200);
  EXPECT_EQ(poll->json()["kind"], "prepare");
  EXPECT_EQ(poll->json()["spec"]["total_steps"], 100);
}

TEST_F(ServiceTest, ALongPollEndsEmptyAtItsDeadlineAndWhenANewerOneComes) {
  arrives("w1");
  const std::string path = "/v1/workers/w1/directive?incarnation=w1-1&have=" +
                           reports("w1", Phase::kIdle).json()["directive_tag"].get<std::string>();
  const auto first = send("GET", path + "&wait_ms=25000");
  service_->turn();
  const auto second = send("GET", path + "&wait_ms=2000");
  service_->turn();
  EXPECT_EQ(first->status(), 204);
  EXPECT_EQ(second->status(), 0);
  passes(2001);
  EXPECT_EQ(second->status(), 204);
}

TEST_F(ServiceTest, SecretsComeWithTheDirectiveAndNowhereElse) {
  begin_training();
  const Json join = ask("GET", "/v1/workers/w1/directive?incarnation=w1-1").json();
  EXPECT_EQ(join["secret"], "secret-1");
  EXPECT_EQ(join["members"].size(), 2u);
  EXPECT_THAT(show().dump(), Not(HasSubstr("secret-1")));
  EXPECT_THAT(ask("GET", "/v1/jobs/j1/events").json().dump(), Not(HasSubstr("secret-1")));
}

TEST_F(ServiceTest, AWorkerWhoseLeaseEndsIsLostAndComesTooLateOnceTheJobWentOn) {
  begin_training();
  for (int i = 0; i < 4; ++i) {
    passes(1000);
    reports("w1", Phase::kActive, 1, 5);
  }
  EXPECT_EQ(directive("w1"), "fence 1");
  reports("w1", Phase::kPrepared, 1, 5);
  EXPECT_EQ(directive("w1"), "join 2");
  const Answer late = reports("w2", Phase::kActive, 1, 5);
  EXPECT_EQ(late.status(), 409);
  EXPECT_EQ(late.json()["code"], "stale_incarnation");
  EXPECT_THAT(event_kinds(), IsSupersetOf({"worker_lost", "fault_reported", "generation_formed"}));
}

TEST_F(ServiceTest, ASuspectThatStaysSilentIsOverOnceTheJobWentOnWithoutItThoughItsLeaseStillRuns) {
  begin_training();
  FaultReport report;
  report.worker = "w1";
  report.incarnation = "w1-1";
  report.generation = 1;
  report.suspect_rank = 1;
  report.kind = "timeout";
  ASSERT_EQ(ask("POST", "/v1/jobs/j1/faults", report).status(), 204);
  reports("w1", Phase::kPrepared, 1, 5);
  for (int ticks = 0; ticks < 8; ++ticks) passes(100);  // in small steps: one long step would mean that the service stood still
  EXPECT_EQ(directive("w1"), "join 2");
  const Answer late = reports("w2", Phase::kActive, 1, 5);
  EXPECT_EQ(late.status(), 409);
  EXPECT_EQ(late.json()["code"], "stale_incarnation");
  EXPECT_THAT(event_kinds(), IsSupersetOf({"worker_left_out", "worker_lost"}));
  WorkerLost lost;
  lost.incarnation = "w2-1";
  lost.reason = "killed by signal 9 (SIGKILL)";
  for (int i = 0; i < 2; ++i) EXPECT_EQ(ask("POST", "/v1/workers/lost", lost, {}, "worker-token").status(), 204);
  EXPECT_THAT(event_kinds(), testing::Contains("worker_ended").Times(1)) << "the supervisor's word comes late, and again";
}

TEST_F(ServiceTest, ALoneWorkerWhoseLeaseEndedIsWelcomeBackWithItsState) {
  arrives("w1");
  ask("POST", "/v1/jobs", spec());
  reports("w1", Phase::kPrepared);
  reports("w1", Phase::kActive, 1, 0);
  passes(1000);
  passes(1000);
  passes(1100);
  EXPECT_EQ(show()["state"], "waiting");
  EXPECT_EQ(reports("w1", Phase::kActive, 1, 7).status(), 200);
  EXPECT_EQ(directive("w1"), "fence 1");
  reports("w1", Phase::kPrepared, 1, 7);
  EXPECT_EQ(directive("w1"), "join 2");
  EXPECT_EQ(show()["step"], 7) << "nothing was lost";
}

TEST_F(ServiceTest, AnOpenPollOfAWorkerWhoseLeaseEndedIsGivenNoDirective) {
  arrives("w1");
  ask("POST", "/v1/jobs", spec());
  reports("w1", Phase::kPrepared);
  const std::string tag = reports("w1", Phase::kActive, 1, 0).json()["directive_tag"];
  const std::string poll = "/v1/workers/w1/directive?incarnation=w1-1&wait_ms=25000&have=" + tag;
  const auto parked = send("GET", poll);
  for (int i = 0; i < 4; ++i) passes(1000);
  ASSERT_EQ(show()["state"], "waiting");
  EXPECT_EQ(parked->status(), 0) << "\"idle\" would make it drop the only copy of the state";
  EXPECT_EQ(reports("w1", Phase::kActive, 1, 7).status(), 200);
  ASSERT_EQ(parked->status(), 200);
  EXPECT_EQ(parked->json()["kind"], "fence");
}

TEST_F(ServiceTest, AnOpenPollOfALifeThatEndedForGoodSaysSo) {
  begin_training();
  const std::string tag = reports("w2", Phase::kActive, 1, 0).json()["directive_tag"];
  const auto parked = send("GET", "/v1/workers/w2/directive?incarnation=w2-1&wait_ms=25000&have=" + tag);
  service_->turn();
  EXPECT_EQ(parked->status(), 0);
  WorkerLost lost;
  lost.incarnation = "w2-1";
  ask("POST", "/v1/workers/lost", lost);
  ASSERT_EQ(parked->status(), 409);
  EXPECT_EQ(parked->json()["code"], "stale_incarnation");
}

TEST_F(ServiceTest, AServiceThatWasStoppedForAWhileJudgesNobodyByThatTime) {
  begin_training();
  passes(3600 * 1000);
  EXPECT_EQ(directive("w1"), "join 1");
}

TEST_F(ServiceTest, ASupervisorsWordEndsAWorkerAtOnce) {
  begin_training();
  WorkerLost lost;
  lost.incarnation = "w2-1";
  lost.reason = "killed by signal 9 (SIGKILL)";
  EXPECT_EQ(ask("POST", "/v1/workers/lost", lost, {}, "worker-token").status(), 204);
  EXPECT_EQ(directive("w1"), "fence 1");
  EXPECT_EQ(reports("w2", Phase::kActive, 1, 5).status(), 409);
  EXPECT_EQ(show()["restarts"], 1);
}

TEST_F(ServiceTest, ProgressOfThePastIsRefusedAndOfThePresentIsLedger) {
  begin_training();
  EXPECT_EQ(ask("POST", "/v1/jobs/j1/progress", progress_to(3), {}, "worker-token").status(), 204);
  EXPECT_EQ(ask("POST", "/v1/jobs/j1/progress", progress_to(5, 4), {}, "worker-token").status(), 204);
  EXPECT_EQ(ask("POST", "/v1/jobs/j1/progress", progress_to(5, 4), {}, "worker-token").status(), 204) << "its answer was lost";
  Progress stale = progress_to(9, 6);
  stale.generation = 0;
  EXPECT_EQ(ask("POST", "/v1/jobs/j1/progress", stale).json()["code"], "stale_generation");
  Progress other = progress_to(9, 6);
  other.worker = "w2";
  other.incarnation = "w2-1";
  EXPECT_EQ(ask("POST", "/v1/jobs/j1/progress", other).json()["code"], "not_rank_0");
  const Json ledger = ask("GET", "/v1/jobs/j1/ledger").json();
  ASSERT_EQ(ledger["rows"].size(), 2u);
  EXPECT_EQ(ledger["rows"][0]["last_step"], 5);
  EXPECT_EQ(ledger["rows"][0]["last_microbatch"], ledger["rows"][1]["first_microbatch"]);
  EXPECT_EQ(ledger["rows"][1]["last_microbatch"], 4);
  EXPECT_EQ(ledger["steps"].size(), 5u);
  EXPECT_EQ(ledger["steps"][4]["data_digest"], "digest5");
  EXPECT_EQ(show()["loss"], 3.0);
}

TEST_F(ServiceTest, GoingBackToACheckpointVoidsTheLedgerAboveIt) {
  begin_training();
  ask("POST", "/v1/jobs/j1/progress", progress_to(6));
  CheckpointRecord record = record_of(4);
  EXPECT_EQ(ask("POST", "/v1/jobs/j1/checkpoints", record).status(), 201);
  WorkerLost lost;
  lost.incarnation = "w2-1";
  ask("POST", "/v1/workers/lost", lost);
  arrives("w1", 2);
  EXPECT_EQ(directive("w1", 2), "prepare 1");
  reports("w1", Phase::kPrepared, 0, -1, 2);
  EXPECT_EQ(directive("w1", 2), "join 2");
  const Json ledger = ask("GET", "/v1/jobs/j1/ledger").json();
  int64_t valid = 0, voided = 0;
  for (const auto& row : ledger["rows"])
    (row["voided_by"].is_null() ? valid : voided) += row["last_step"].get<int64_t>() - row["first_step"].get<int64_t>() + 1;
  EXPECT_EQ(valid, 2 * 4);
  EXPECT_EQ(voided, 2 * 2);
  EXPECT_EQ(ledger["steps"].size(), 4u);
  EXPECT_EQ(show()["step"], 4);
  record.generation = 1;
  EXPECT_EQ(ask("POST", "/v1/jobs/j1/checkpoints", record).status(), 409) << "its writer belongs to the past";
  record = record_of(6);  // a present member whose state is of the past
  record.incarnation = "w1-2";
  record.generation = 2;
  record.state_generation = 1;
  EXPECT_EQ(ask("POST", "/v1/jobs/j1/checkpoints", record).json()["code"], "stale_state");
  restart();
  EXPECT_EQ(ask("POST", "/v1/jobs/j1/checkpoints", record).json()["code"], "stale_state");
  EXPECT_EQ(show()["latest_checkpoint"]["step"], 4);
}

TEST_F(ServiceTest, RetentionDropsTheRowsOfWhatWasRemoved) {
  begin_training();
  for (const int64_t step : {1, 2}) ask("POST", "/v1/jobs/j1/checkpoints", record_of(step));
  CheckpointRecord third = record_of(3);
  third.removed_steps = {1};
  ask("POST", "/v1/jobs/j1/checkpoints", third);
  const Json list = ask("GET", "/v1/jobs/j1/checkpoints").json()["checkpoints"];
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0]["step"], 2);
  EXPECT_EQ(show()["latest_checkpoint"]["step"], 3);
}

TEST_F(ServiceTest, ADrainedWorkerLeavesInOrderAndExits) {
  begin_training();
  EXPECT_EQ(ask("POST", "/v1/nodes/w2/drain").status(), 202);
  EXPECT_EQ(directive("w1"), "yield 1");
  for (const char* worker : {"w1", "w2"}) reports(worker, Phase::kPrepared, 1, 3);
  EXPECT_EQ(directive("w1"), "join 2");
  EXPECT_EQ(directive("w2"), "exit 0");
  EXPECT_EQ(show()["restarts"], 0);
  for (int i = 0; i < 4; ++i) {
    passes(1000);
    reports("w1", Phase::kActive, 2, 3);
  }
  const Json nodes = ask("GET", "/v1/nodes").json()["nodes"];
  EXPECT_EQ(nodes[1]["state"], "left");
  EXPECT_EQ(ask("POST", "/v1/nodes/w9/drain").status(), 404);
  EXPECT_EQ(ask("POST", "/v1/nodes/w2/drain").status(), 409);
}

TEST_F(ServiceTest, ARestartedServiceGoesOnWhereItWas) {
  begin_training();
  ask("POST", "/v1/jobs/j1/progress", progress_to(5));
  ask("POST", "/v1/jobs/j1/checkpoints", record_of(4));
  const Json before = show();
  const size_t events = event_kinds().size();
  const Json join = ask("GET", "/v1/workers/w1/directive?incarnation=w1-1").json();
  restart();
  Json after = show();
  const auto poll = send("GET", "/v1/workers/w1/directive?incarnation=w1-1&wait_ms=5000");
  service_->turn();
  EXPECT_FALSE(poll->there()) << "nobody is told anything before it has said what it does";
  reports("w1", Phase::kActive, 1, 5);
  EXPECT_EQ(poll->json(), join) << "members, secret and all";
  for (const char* field :
       {"id", "state", "reason", "step", "generation", "restarts", "state_hash", "spec", "loss", "submitted_at"}) {
    EXPECT_EQ(after[field], before[field]) << field;
  }
  EXPECT_EQ(after["latest_checkpoint"]["step"], 4);
  EXPECT_EQ(event_kinds().size(), events);
  passes(9000);
  for (const char* worker : {"w1", "w2"}) reports(worker, Phase::kActive, 1, 6);
  EXPECT_EQ(directive("w2"), "join 1") << "unreachable is not dead: there is a time of grace";
  for (const char* worker : {"w1", "w2"}) EXPECT_EQ(reports(worker, Phase::kActive, 1, 6).status(), 200);
  EXPECT_EQ(ask("POST", "/v1/jobs/j1/progress", progress_to(6, 6)).status(), 204);
  EXPECT_EQ(show()["restarts"], 0);
}

TEST_F(ServiceTest, ARestartInTheMiddleOfAFaultFormsTheNextGeneration) {
  begin_training();
  ask("POST", "/v1/jobs/j1/progress", progress_to(5));
  WorkerLost lost;
  lost.incarnation = "w2-1";
  ask("POST", "/v1/workers/lost", lost);
  restart();
  reports("w1", Phase::kActive, 1, 5);
  EXPECT_EQ(directive("w1"), "fence 1");
  reports("w1", Phase::kPrepared, 1, 5);
  EXPECT_EQ(directive("w1"), "join 2");
  const Json join = ask("GET", "/v1/workers/w1/directive?incarnation=w1-1").json();
  EXPECT_EQ(join["source"]["kind"], "memory");
  EXPECT_EQ(join["source"]["step"], 5);
  EXPECT_EQ(reports("w2", Phase::kActive, 1, 5).status(), 409) << "it stays lost";
}

TEST_F(ServiceTest, WorkersOfAServiceThatWasAwayForDaysAreNotForgottenAtOnce) {
  begin_training();
  clock_.ms += int64_t{48} * 3600 * 1000;
  restart();
  EXPECT_LT(ask("GET", "/v1/nodes").json()["nodes"][0]["last_seen_s"], 1) << "the time that nobody listened does not count";
  for (int i = 0; i < 80; ++i) passes(1000);
  const Json nodes = ask("GET", "/v1/nodes").json()["nodes"];
  ASSERT_EQ(nodes.size(), 2u);
  EXPECT_EQ(nodes[0]["state"], "lost");
  EXPECT_EQ(reports("w1", Phase::kActive, 1, 5).status(), 200) << "nor is its life over";
}

TEST_F(ServiceTest, EverythingKilledResumesFromTheNewestCheckpointByItself) {
  begin_training();
  ask("POST", "/v1/jobs/j1/progress", progress_to(5));
  ask("POST", "/v1/jobs/j1/checkpoints", record_of(4));
  restart();
  for (const char* worker : {"w1", "w2"}) arrives(worker, 2);
  for (const char* worker : {"w1", "w2"}) reports(worker, Phase::kPrepared, 0, -1, 2);
  EXPECT_EQ(directive("w1", 2), "join 2");
  EXPECT_EQ(show()["step"], 4);
  EXPECT_THAT(event_kinds(), Contains("steps_voided"));
}

TEST_F(ServiceTest, AfterTheEndAWorkerIsIdleAndFreeForTheNextJob) {
  begin_training();
  ask("POST", "/v1/jobs", spec("second"));
  Progress end = progress_to(100);
  end.finished = true;
  end.state_hash = "h";
  end.state_hash_step = 100;
  EXPECT_EQ(ask("POST", "/v1/jobs/j1/progress", end).json()["code"], "checkpoint_unknown")
      << "the database that knew its last checkpoint was replaced by an older one";
  EXPECT_EQ(ask("POST", "/v1/jobs/j1/checkpoints", record_of(100)).status(), 201);
  EXPECT_EQ(ask("POST", "/v1/jobs/j1/progress", end).status(), 204);
  EXPECT_EQ(ask("POST", "/v1/jobs/j1/progress", end).status(), 204) << "its answer was lost";
  EXPECT_EQ(show()["state"], "succeeded");
  EXPECT_EQ(show()["state_hash"], "h");
  EXPECT_EQ(directive("w1"), "idle 0");
  EXPECT_EQ(show("j2")["state"], "queued");
  for (const char* worker : {"w1", "w2"}) reports(worker, Phase::kIdle);
  EXPECT_EQ(directive("w1"), "prepare 0");
}

TEST_F(ServiceTest, ManyThreadsAtOnceAreAnsweredAndTheEndAnswersWhoWaits) {
  registers("w0");
  const std::string tag = reports("w0", Phase::kIdle).json()["directive_tag"];
  std::thread owner([this] { service_->run(); });
  const auto parked = send("GET", "/v1/workers/w0/directive?incarnation=w0-1&wait_ms=25000&have=" + tag);
  std::vector<std::thread> clients;
  std::atomic<int> answered = 0;
  for (int i = 1; i <= 4; ++i) {
    clients.emplace_back([this, i, &answered] {
      const std::string worker = "w" + std::to_string(i);
      RegisterRequest request;
      request.name = worker;
      request.incarnation = worker + "-1";
      WorkerStatus status;
      status.incarnation = worker + "-1";
      std::vector<std::shared_ptr<Pending>> pending = {send("POST", "/v1/workers", Json(request).dump())};
      for (int n = 0; n < 25; ++n) {
        pending.push_back(send("POST", "/v1/workers/" + worker + "/status", Json(status).dump()));
        pending.push_back(send("GET", "/v1/nodes"));
      }
      for (const auto& one : pending) {
        while (!one->there()) std::this_thread::yield();
        answered += one->status() == 200 ? 1 : 0;
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(answered, 4 * 51);
  EXPECT_FALSE(parked->there());
  service_->stop();
  owner.join();
  EXPECT_EQ(parked->status(), 503);
  EXPECT_EQ(send("GET", "/v1/nodes")->status(), 503);
}

}  // namespace
}  // namespace holdfast::rendezvous
