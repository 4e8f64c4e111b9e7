// The queue as people see it: the reasons for which jobs wait, `after`, retries and max_runtime, also over restarts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/rendezvous/api/service_queue_harness.h"

namespace holdfast::rendezvous {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

TEST_F(QueueTest, AJobNamesMissingRefusedAndBusyWorkers) {
  arrives("w1");
  const std::string first = submit({{"nodes", 1}, {"name", "first"}});
  trains("w1", first);
  arrives("w2");
  const std::string second = submit({{"min_nodes", 2}, {"name", "second"}});
  reports("w2", Phase::kPrepared, 0, -1, 1, first);
  const Json waits = waits_for(second);
  EXPECT_EQ(waits["kind"], "workers");
  EXPECT_EQ(waits["needed"], 2);
  EXPECT_EQ(waits["missing"], 2);
  EXPECT_EQ(waits["busy"][0]["job"], first);
  EXPECT_THAT(waits["text"].get<std::string>(),
              HasSubstr("waiting for 2 more workers: 2 needed, 0 there; 2 are busy: j1 has 2"));
  EXPECT_EQ(reason(second), waits["text"].get<std::string>());
  EXPECT_TRUE(waits_for(first).is_null());
}

TEST_F(QueueTest, ARequirementThatNoWorkerSatisfiesIsNamedWithTheValuesThatTheyHave) {
  arrives_with("w1", {{"zone", "a"}});
  arrives_with("w2", {});
  const std::string job = submit({{"requires", {{"zone", "b"}, {"memory_gib", 0.5}}}});
  EXPECT_EQ(state(job), "queued");
  EXPECT_THAT(
      reason(job),
      HasSubstr("none of 2 workers satisfies what the job requires: memory_gib=0.5 (2 have 0), zone=b (1 has a, 1 has none)"));
  EXPECT_EQ(directive("w1"), "idle 0");
  const Json nodes = ask("GET", "/v1/nodes").json()["nodes"];
  EXPECT_EQ(nodes[0]["labels"], (Json{{"zone", "a"}}));
  EXPECT_EQ(nodes[1]["labels"], Json::object());
  const std::string fits = submit({{"requires", {{"zone", "a"}}}});
  EXPECT_EQ(directive("w1"), "prepare 0");
  EXPECT_EQ(directive("w2"), "idle 0") << fits << " is for zone a alone";
}

TEST_F(QueueTest, AWorkerThatCameForOneJobWorksForNoOtherAndLeavesWhenThatHasEnded) {
  const std::string other = submit(), own = submit();
  RegisterRequest request;
  request.name = "w1";
  request.incarnation = "w1-1";
  request.numerics = "avx512";
  request.only_job = own;
  EXPECT_EQ(ask("POST", "/v1/workers", request, {}, "worker-token").status(), 200);
  reports("w1", Phase::kIdle);
  EXPECT_EQ(directive("w1"), "prepare 0");
  EXPECT_EQ(ask("GET", "/v1/nodes").json()["nodes"][0]["job"], own) << other << " is older";
  EXPECT_EQ(ask("GET", "/v1/nodes").json()["nodes"][0]["only_job"], own);
  EXPECT_EQ(reason(other), "waiting for 1 more worker: 1 needed, 0 there");
  restart();
  reports("w1", Phase::kIdle);
  EXPECT_EQ(directive("w1"), "prepare 0") << "the database knows it";
  ask("POST", "/v1/jobs/" + own + "/stop");
  reports("w1", Phase::kIdle);
  passes(100);
  EXPECT_EQ(directive("w1"), "exit 0");
  EXPECT_EQ(ask("GET", "/v1/nodes").json()["nodes"][0]["state"], "draining");
}

TEST_F(QueueTest, AWorkerForAJobThatThereIsNotIsRefusedAndOneForAnEndedJobLeavesAtOnce) {
  RegisterRequest request;
  request.name = "w1";
  request.incarnation = "w1-1";
  request.only_job = "j9";
  const Answer answer = ask("POST", "/v1/workers", request);
  EXPECT_EQ(answer.json()["code"], "no_such_job");
  EXPECT_THAT(answer.json()["detail"].get<std::string>(), HasSubstr("w1 came for job \"j9\" alone"));
  request.only_job = submit();
  ask("POST", "/v1/jobs/" + request.only_job + "/stop");
  EXPECT_EQ(ask("POST", "/v1/workers", request).status(), 200);
  reports("w1", Phase::kIdle);
  passes(100);
  EXPECT_EQ(directive("w1"), "exit 0");
}

TEST_F(QueueTest, InvalidRequirementsAndInvalidLabelsAreRefused) {
  EXPECT_THAT(submitted({{"requires", {{"device", "tpu"}}}}).json()["detail"].get<std::string>(),
              HasSubstr("choose cpu, hip or cuda"));
  EXPECT_THAT(submitted({{"requires", {{"memory_gib", "much"}}}}).json()["detail"].get<std::string>(),
              HasSubstr("a number of GiB"));
  RegisterRequest request;
  request.name = "w1";
  request.incarnation = "w1-1";
  request.labels = {{"device", "hip"}};
  EXPECT_EQ(ask("POST", "/v1/workers", request).json()["code"], "bad_labels");
  Json old = request;
  old.erase("labels");
  EXPECT_EQ(ask("POST", "/v1/workers", old).status(), 200) << "a worker of an older release says nothing of labels";
}

TEST_F(QueueTest, WorkersDoNotGetFieldsThatOnlyTheServiceUses) {
  arrives("w1");
  submit({{"retries", 3}, {"max_runtime", 100}});
  const Json told = ask("GET", "/v1/workers/w1/directive?incarnation=w1-1").json()["spec"];
  EXPECT_TRUE(told.contains("total_steps"));
  for (const char* field : {"retries", "retry_delay", "max_runtime", "requires", "after"})
    EXPECT_FALSE(told.contains(field)) << field;
  EXPECT_EQ(show()["spec"]["retries"], 3);
}

TEST_F(QueueTest, AJobComesAfterAnotherHasSucceeded) {
  arrives("w1");
  const std::string first = submit({{"name", "first"}, {"nodes", 1}});
  trains("w1", first);
  const std::string second = submit({{"after", "first"}, {"priority", 9}});
  EXPECT_EQ(state(second), "queued");
  EXPECT_EQ(waiting_kind(second), "job");
  EXPECT_THAT(reason(second), HasSubstr("waiting for job j1 to succeed, which is running"));
  EXPECT_EQ(directive("w1"), "join 1") << "nobody is preempted for one that may not begin";
  restart();
  registers("w1");
  reports("w1", Phase::kActive, 1, 3);
  EXPECT_EQ(show(second)["after"], "j1");
  EXPECT_EQ(waiting_kind(second), "job");
  Progress done = said_by("w1", 100);
  done.finished = true;
  ask("POST", "/v1/jobs/j1/progress", done);
  EXPECT_EQ(state(first), "succeeded");
  EXPECT_THAT(event_kinds(second), Contains("job_released"));
  reports("w1", Phase::kIdle);
  EXPECT_EQ(directive("w1"), "prepare 0");
}

TEST_F(QueueTest, AJobFailsWithAllThatComeAfterItWhenTheJobBeforeItFails) {
  const std::string first = submit();
  const std::string second = submit({{"after", first}}), third = submit({{"after", second}});
  ask("POST", "/v1/jobs/j1/stop");
  EXPECT_EQ(state(second), "failed");
  EXPECT_THAT(reason(second), HasSubstr("job j1, which this one comes after, was cancelled: stopped at step 0"));
  EXPECT_EQ(state(third), "failed");
  EXPECT_THAT(reason(third), HasSubstr("job j2, which this one comes after, failed"));
  const Answer unknown = submitted({{"after", "nobody"}}), late = submitted({{"after", first}});
  EXPECT_EQ(unknown.status(), 400);
  EXPECT_EQ(unknown.json()["errors"][0]["field"], "after");
  EXPECT_THAT(unknown.json()["detail"].get<std::string>(), HasSubstr("there is no job \"nobody\""));
  EXPECT_EQ(late.status(), 400);
  EXPECT_THAT(late.json()["detail"].get<std::string>(), HasSubstr("cancelled already"));
}

TEST_F(QueueTest, AChainGoesOnFromTheCheckpointThatTheFirstJobWillHave) {
  arrives("w1");
  submit({{"nodes", 1}});
  trains("w1", "j1");
  EXPECT_THAT(submitted({{"after", "j1"}, {"resume_from", "job:j1"}, {"n_layer", 2}}).json()["detail"].get<std::string>(),
              HasSubstr("n_layer is 6 there and 2 here"));
  EXPECT_THAT(submitted({{"after", "j1"}, {"resume_from", "job:j1"}, {"total_steps", 50}}).json()["detail"].get<std::string>(),
              HasSubstr("beyond total_steps 50"));
  const Json prolonged = {{"after", "j1"}, {"resume_from", "job:j1"}, {"total_steps", 200}, {"schedule_start", 150}};
  EXPECT_THAT(submitted(prolonged).json()["detail"].get<std::string>(),
              HasSubstr("150 is beyond step 100, the last of job j1, which the job goes on from"));
  const std::string second =
      submit({{"after", "j1"}, {"resume_from", "job:j1"}, {"total_steps", 200}, {"schedule_start", 100}});
  ask("POST", "/v1/jobs/j1/checkpoints", record_by("w1", 100));
  Progress done = said_by("w1", 100);
  done.finished = true;
  ask("POST", "/v1/jobs/j1/progress", done);
  restart();
  registers("w1");
  reports("w1", Phase::kIdle);
  EXPECT_EQ(directive("w1"), "prepare 0");
  reports("w1", Phase::kPrepared, 0, -1, 1, second);
  const Json join = ask("GET", "/v1/workers/w1/directive?incarnation=w1-1").json();
  EXPECT_EQ(join["kind"], "join");
  EXPECT_EQ(join["source"]["step"], 100);
  EXPECT_EQ(join["source"]["job"], "j1");
  EXPECT_EQ(show(second)["step"], 100);
}

TEST_F(QueueTest, AChainFailsWhereTheFirstJobTurnsOutToEndBeyondItsLastStep) {
  arrives("w1");
  Json counted = spec();
  counted.erase("total_steps");
  counted.update({{"nodes", 1}, {"epochs", 3}});
  ASSERT_EQ(ask("POST", "/v1/jobs", counted).status(), 201);
  trains("w1", "j1");
  const std::string second = submit({{"after", "j1"}, {"resume_from", "job:j1"}, {"total_steps", 50}});
  ask("POST", "/v1/jobs/j1/checkpoints", record_by("w1", 100));
  Progress done = said_by("w1", 100);
  done.finished = true;
  ask("POST", "/v1/jobs/j1/progress", done);
  EXPECT_EQ(state(second), "failed");
  EXPECT_THAT(reason(second), HasSubstr("total_steps is 50, and job j1, from which this one was to go on, ended at step 100"));
}

TEST_F(QueueTest, ARunThatHadEndedAndIsProlongedIsWarnedOfAJumpOfTheRate) {
  arrives("w1");
  submit({{"nodes", 1}});
  trains("w1", "j1");
  CheckpointRecord last = record_by("w1", 100);
  last.store = "/mnt/of-the-workers";
  ask("POST", "/v1/jobs/j1/checkpoints", last);
  Progress done = said_by("w1", 100);
  done.finished = true;
  ask("POST", "/v1/jobs/j1/progress", done);
  const auto is_warned = [&](const Json& changes, const std::string& words = "schedule_start 100 to begin it anew") {
    Json body = spec();
    body.update({{"resume_from", "job:j1"}, {"total_steps", 200}});
    body.update(changes);
    const Answer answer = ask_until_answered("POST", "/v1/jobs", body.dump());
    EXPECT_EQ(answer.status(), 201) << answer.response->body;
    return answer.json().value("warnings", Json::array()).dump().find(words) != std::string::npos;
  };
  EXPECT_TRUE(is_warned(Json::object()));
  EXPECT_TRUE(is_warned({{"schedule_start", 50}})) << "as that of a run that was prolonged before";
  EXPECT_TRUE(is_warned({{"total_steps", 100}}, "there is nothing left to train"));
  EXPECT_FALSE(is_warned(Json::object(), "there is nothing left to train"));
  EXPECT_TRUE(is_warned({{"warmup_steps", 10}, {"decay_steps", 150}}));
  EXPECT_FALSE(is_warned({{"warmup_steps", 10}, {"decay_steps", 80}})) << "the rate stays at its lowest";
  EXPECT_FALSE(is_warned({{"schedule_start", 100}}));
  EXPECT_FALSE(is_warned({{"lr_schedule", "constant"}}));
}

TEST_F(QueueTest, TheWeightsThatAJobBeganWithAreKeptThoughItHasCheckpointsOfItsOwn) {
  arrives("w1");
  const auto written = [&](const std::string& job, const std::string& worker, int64_t step) {
    CheckpointRecord record = record_by(worker, step);
    record.store = "/mnt/of-the-workers";
    const Answer answer = ask("POST", "/v1/jobs/" + job + "/checkpoints", record);
    EXPECT_EQ(answer.status(), 201) << answer.response->body;
    return answer.json()["needed_steps"];
  };
  submit({{"nodes", 1}, {"max_nodes", 1}});
  trains("w1", "j1");
  written("j1", "w1", 50);
  arrives("w2");
  const std::string begins = submit({{"nodes", 1}, {"max_nodes", 1}, {"init_from", "job:j1"}});
  trains("w2", begins);
  written(begins, "w2", 10);
  EXPECT_EQ(written("j1", "w1", 60), Json::array({50})) << "each worker that prepares for it reads them";
}

TEST_F(QueueTest, AChainThatProlongsARunIsWarnedOfAJumpOfTheRateBeforeItsFirstJobHasEnded) {
  submit({{"nodes", 1}});
  const Json chain = {{"after", "j1"}, {"resume_from", "job:j1"}, {"total_steps", 200}};
  EXPECT_THAT(submitted(chain).json()["warnings"].dump(), HasSubstr("job j1 ends at step 100, at its min_lr"));
  Json anew = chain;
  anew["schedule_start"] = 100;
  EXPECT_THAT(submitted(anew).json()["warnings"].dump(), Not(HasSubstr("min_lr")));
}

TEST_F(QueueTest, AChainByNameIsResolvedWhenTheFirstJobHasSucceeded) {
  arrives("w1");
  submit({{"nodes", 1}, {"name", "first"}});
  trains("w1", "j1");
  Progress done = said_by("w1", 100);
  done.finished = true;
  ask("POST", "/v1/jobs/j1/progress", done);
  ASSERT_EQ(state("j1"), "succeeded");
  EXPECT_THAT(submitted({{"after", "first"}, {"resume_from", "job:first"}}).json()["detail"].get<std::string>(),
              HasSubstr("job j1 has no checkpoint"));
}

TEST_F(QueueTest, AFailedJobWaitsForItsRetryThroughARestart) {
  arrives("w1");
  submit({{"nodes", 1}, {"retries", 1}, {"retry_delay", 60}});
  trains("w1", "j1");
  Progress failed = said_by("w1", 1);
  failed.failure = "10 steps in a row were refused";
  ask("POST", "/v1/jobs/j1/progress", failed);
  EXPECT_EQ(state("j1"), "queued");
  EXPECT_EQ(waiting_kind("j1"), "retry");
  EXPECT_EQ(waits_for("j1")["retry"], 1);
  EXPECT_THAT(reason("j1"), HasSubstr("retry 1 of 1 (it failed after step 1: 10 steps in a row were refused) begins at 2023"));
  EXPECT_EQ(show()["retries_done"], 1);
  EXPECT_EQ(directive("w1"), "idle 0");
  reports("w1", Phase::kIdle);
  passes(30'000);
  restart();
  registers("w1");
  reports("w1", Phase::kIdle);
  EXPECT_EQ(directive("w1"), "idle 0");
  EXPECT_EQ(waiting_kind("j1"), "retry");
  passes(29'900);
  reports("w1", Phase::kIdle);
  EXPECT_EQ(directive("w1"), "idle 0");
  passes(200);
  reports("w1", Phase::kIdle);
  EXPECT_EQ(directive("w1"), "prepare 1");
  EXPECT_EQ(waiting_kind("j1"), "workers");
}

TEST_F(QueueTest, AClockThatIsSetBackDelaysNoRetry) {
  passes(10'000'000);
  arrives("w1");
  submit({{"nodes", 1}, {"retries", 1}, {"retry_delay", 60}});
  trains("w1", "j1");
  Progress failed = said_by("w1", 1);
  failed.failure = "10 steps in a row were refused";
  ask("POST", "/v1/jobs/j1/progress", failed);
  ASSERT_EQ(waiting_kind("j1"), "retry");
  clock_.ms -= 5'000'000;
  restart();
  registers("w1");
  reports("w1", Phase::kIdle);
  EXPECT_EQ(directive("w1"), "prepare 1");
}

TEST_F(QueueTest, RunningTimeIsCountedOverRestartsAndEndsTheJob) {
  arrives("w1");
  submit({{"nodes", 1}, {"max_runtime", 100}});
  passes(50'000);  // time in the queue does not count
  reports("w1", Phase::kIdle);
  trains("w1", "j1");
  const auto lives_on = [&](int64_t ms, int64_t step) {
    for (int64_t past = 0; past < ms; past += 1000) {
      passes(1000);
      reports("w1", Phase::kActive, 1, step);
    }
    ask("POST", "/v1/jobs/j1/progress", said_by("w1", step));
  };
  lives_on(40'000, 1);
  EXPECT_NEAR(show()["running_s"].get<double>(), 40, 1);
  clock_.ms += 30'000;  // the service is away, and its workers train on
  restart();
  registers("w1");
  reports("w1", Phase::kActive, 1, 2);
  EXPECT_NEAR(show()["running_s"].get<double>(), 40, 1) << "until a step shows it";
  ask("POST", "/v1/jobs/j1/progress", said_by("w1", 2));
  EXPECT_NEAR(show()["running_s"].get<double>(), 70, 1);
  lives_on(25'000, 3);
  EXPECT_EQ(directive("w1"), "join 1");
  lives_on(6'000, 4);
  EXPECT_EQ(directive("w1"), "yield 1");
  ask("POST", "/v1/jobs/j1/checkpoints", record_by("w1", 5));
  reports("w1", Phase::kPrepared, 1, 5);
  EXPECT_EQ(state("j1"), "failed");
  EXPECT_THAT(reason("j1"), HasSubstr("max_runtime of 100 s is over: stopped at step 5, which is kept as a checkpoint"));
  EXPECT_NEAR(show()["running_s"].get<double>(), 101, 2);
}

TEST_F(QueueTest, MaxRuntimeThatEndsInAYieldWaitsForTheNextGeneration) {
  arrives("w1");
  submit({{"nodes", 1}, {"max_nodes", 2}, {"max_runtime", 100}});
  trains("w1", "j1");
  ask("POST", "/v1/jobs/j1/progress", said_by("w1", 1));
  const auto lives_on_for = [&](int64_t ms) {
    for (int64_t past = 0; past < ms; past += 1000) {
      passes(1000);
      reports("w1", Phase::kActive, 1, 1);
    }
  };
  lives_on_for(95'000);
  arrives("w2");
  reports("w2", Phase::kPrepared, 0, -1);
  passes(100);
  ASSERT_EQ(directive("w1"), "yield 1") << "w2 joins";
  for (int past = 0; past < 10; ++past) {
    passes(1000);
    reports("w1", Phase::kActive, 1, 1);
    reports("w2", Phase::kPrepared, 0, -1);
  }
  reports("w1", Phase::kPrepared, 1, 2);
  EXPECT_EQ(state("j1"), "running") << "it is not ended where nobody writes a checkpoint";
  ASSERT_EQ(directive("w1"), "join 2");
  passes(100);
  EXPECT_EQ(directive("w1"), "join 2");
  for (const char* worker : {"w1", "w2"}) reports(worker, Phase::kActive, 2, 2);
  passes(100);
  EXPECT_EQ(directive("w1"), "yield 2");
  ask("POST", "/v1/jobs/j1/checkpoints", record_by("w1", 3, 2));
  for (const char* worker : {"w1", "w2"}) reports(worker, Phase::kPrepared, 2, 3);
  EXPECT_EQ(state("j1"), "failed");
  EXPECT_THAT(reason("j1"), HasSubstr("max_runtime of 100 s is over: stopped at step 3, which is kept as a checkpoint"));
}

TEST_F(QueueTest, TimeInWhichNobodyTrainedIsNotRunningTime) {
  arrives("w1");
  submit({{"nodes", 1}, {"max_runtime", 100}});
  trains("w1", "j1");
  ask("POST", "/v1/jobs/j1/progress", said_by("w1", 1));
  clock_.ms += 3600'000;  // the service and all workers were down
  restart();
  registers("w1", 2);
  reports("w1", Phase::kIdle, 0, -1, 2);
  reports("w1", Phase::kPrepared, 0, -1, 2);
  reports("w1", Phase::kPrepared, 1, -1, 2);
  EXPECT_EQ(directive("w1", 2), "join 2");
  EXPECT_LT(show()["running_s"].get<double>(), 5);
}

}  // namespace
}  // namespace holdfast::rendezvous
