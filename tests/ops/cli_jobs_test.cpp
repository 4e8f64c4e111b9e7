// Commands about jobs and workers, over canned answers: what is asked of the service, and what is said to people.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/ops/cli_runner.h"
#include "tests/ops/fake_service.h"

namespace holdfast::ops {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

Json a_job(const std::string& state, const Json& more = Json::object()) {
  Json job = {{"id", "j1"},
              {"name", "demo"},
              {"state", state},
              {"reason", ""},
              {"step", 40},
              {"total_steps", 60},
              {"loss", 3.41234},
              {"validation_loss", nullptr},
              {"generation", 3},
              {"world_size", 2},
              {"restarts", 1},
              {"tokens_per_second", 10240.4},
              {"eta_s", 134.2},
              {"latest_checkpoint", {{"step", 20}, {"age_s", 14.2}}},
              {"state_hash", nullptr},
              {"state_hash_step", nullptr},
              {"submitted_at", "2026-01-02T03:04:05.678Z"},
              {"started_at", nullptr},
              {"finished_at", nullptr},
              {"workers", {{{"id", "w1"}, {"rank", 0}, {"node", "n1"}, {"device", "cpu"}}}},
              {"spec", {{"model", "tiny"}, {"batch_size", 2}, {"global_batch_size", 12}, {"train_data_path", "/d/train.bin"}}}};
  job.update(more);
  return job;
}
Json an_event(int id, const std::string& kind, const std::string& message) {
  return {{"id", id}, {"time", "2026-01-02T03:04:05.678Z"}, {"job", "j1"}, {"kind", kind}, {"message", message}};
}
Json a_log(const std::string& text) {
  return {{"id", 1}, {"time", "2026-01-02T03:04:05Z"}, {"worker", "w1"}, {"level", "info"}, {"text", text}};
}
Json a_page(const char* key, const std::vector<Json>& items, const Json& next = nullptr) {
  return {{key, items}, {"next_page_token", next}};
}

class Jobs : public ::testing::Test {
 protected:
  Said run(std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--server", service_.url()});
    return holdfast(std::move(arguments));
  }
  FakeService service_;
};

TEST_F(Jobs, SubmitSendsTheFlagsAsTheirTypesAndPrintsTheIdAlone) {
  service_.answer("POST /v1/jobs", a_job("queued"), 201);
  const Said said = run({"submit", "--train_data_path", "/d/t.bin", "--batch-size", "2", "--learning-rate=1e-3", "--name", "5",
                         "--labels", "team=nlp", "--labels", "a=b=c", "--requires", "device=cpu", "--resume_from", "60",
                         "--seed", "9223372036854775807"});
  EXPECT_EQ(said.exit_code, 0) << said.err;
  EXPECT_EQ(said.out, "j1\n");
  EXPECT_EQ(service_.body_of("POST /v1/jobs"), (Json{{"train_data_path", "/d/t.bin"},
                                                     {"batch_size", 2},
                                                     {"learning_rate", 1e-3},
                                                     {"name", "5"},
                                                     {"labels", {{"team", "nlp"}, {"a", "b=c"}}},
                                                     {"requires", {{"device", "cpu"}}},
                                                     {"resume_from", "60"},
                                                     {"seed", INT64_MAX}}));
  EXPECT_EQ(service_.requests("POST /v1/jobs")[0].headers.at("idempotency-key").size(), 32U);
}

TEST_F(Jobs, SubmitLeavesWhatIsNoNumberToTheServiceWhichNamesIt) {
  service_.problem("POST /v1/jobs", 422, "the job spec has 2 errors",
                   {{{"field", "batch_size"}, {"message", "must be an integer, not \"four\""}},
                    {{"field", "n_head"}, {"message", "6 does not divide n_embd 400"}}});
  const Said said = run({"submit", "--batch_size", "four", "--n_embd", "400"});
  EXPECT_EQ(said.exit_code, 2);
  EXPECT_EQ(service_.body_of("POST /v1/jobs")["batch_size"], "four");
  EXPECT_THAT(said.err, HasSubstr("batch_size: must be an integer"));
  EXPECT_THAT(said.err, HasSubstr("n_head: 6 does not divide"));
  EXPECT_EQ(said.out, "");
}

TEST_F(Jobs, SubmitTakesAFileAndFlagsWinOverIt) {
  service_.answer("POST /v1/jobs", a_job("queued"), 201);
  const fs::path file = fs::temp_directory_path() / ("holdfast-config-" + std::to_string(getpid()) + ".json");
  std::ofstream(file) << R"({"train_data_path": "/d/t.bin", "total_steps": 5, "seed": 1})";
  EXPECT_EQ(run({"submit", "--config", file, "--total_steps", "7"}).exit_code, 0);
  EXPECT_EQ(service_.body_of("POST /v1/jobs"), (Json{{"train_data_path", "/d/t.bin"}, {"total_steps", 7}, {"seed", 1}}));
  std::ofstream(file) << "{oops";
  EXPECT_EQ(run({"submit", "--config", file}).exit_code, 2);
  fs::remove(file);
}

TEST_F(Jobs, SubmitMakesPathsThatAreHereAbsoluteAndLeavesOthers) {
  service_.answer("POST /v1/jobs", a_job("queued"), 201);
  const fs::path folder = fs::temp_directory_path() / ("holdfast-paths-" + std::to_string(getpid()));
  fs::create_directories(folder);
  std::ofstream(folder / "train.bin") << "x";
  const fs::path before = fs::current_path();
  fs::current_path(folder);
  EXPECT_EQ(
      run({"submit", "--train_data_path", "train.bin", "--valid_data_path", "elsewhere.bin", "--checkpoint_store", "ckpt"})
          .exit_code,
      0);
  const std::string here = fs::current_path();
  fs::current_path(before);
  fs::remove_all(folder);
  const Json body = service_.body_of("POST /v1/jobs");
  EXPECT_EQ(body["train_data_path"], here + "/train.bin");
  EXPECT_EQ(body["valid_data_path"], "elsewhere.bin") << "below the workers' --data_root";
  EXPECT_EQ(body["checkpoint_store"], here + "/ckpt");
}

TEST_F(Jobs, SubmitAsJsonIsTheJob) {
  service_.answer("POST /v1/jobs", a_job("queued"), 201);
  EXPECT_EQ(Json::parse(run({"submit", "--json"}).out)["id"], "j1");
}

TEST_F(Jobs, LsIsATableOrTheApisObjectOverAllPages) {
  service_.answer("GET /v1/jobs", a_page("jobs", {a_job("running")}, "p2"));
  service_.answer("GET /v1/jobs", a_page("jobs", {a_job("queued", {{"id", "j2"}, {"reason", "waits for 2 workers"}})}));
  const Json all = Json::parse(run({"ls", "--json"}).out);
  ASSERT_EQ(all["jobs"].size(), 2U);
  EXPECT_TRUE(all["next_page_token"].is_null());
  EXPECT_EQ(service_.requests("GET /v1/jobs").at(1).query.at("page_token"), "p2");
  const Said table = run({"ls"});
  EXPECT_THAT(table.out, HasSubstr("JOB"));
  EXPECT_THAT(table.out, HasSubstr("queued (waits for 2 workers)"));
}

TEST_F(Jobs, LsOfNothingSaysHowToSubmit) {
  service_.answer("GET /v1/jobs", a_page("jobs", {}));
  EXPECT_THAT(run({"ls"}).out, HasSubstr("holdfast submit"));
}

TEST_F(Jobs, ShowIsForPeopleOrTheApisObject) {
  service_.answer("GET /v1/jobs/j1", a_job("running"));
  EXPECT_EQ(Json::parse(run({"show", "j1", "--json"}).out), a_job("running"));
  const std::string text = run({"show", "j1"}).out;
  for (const char* part : {"j1 (demo)", "running", "40/60", "3.4123", "10,240 tokens/s", "2m 14s", "step 20 (14s ago)",
                           "3 (1 fault)", "12 sequences a step, in 6 microbatches of 2", "2026-01-02 03:04:05", "w1"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_THAT(text, Not(HasSubstr("null")));
}

TEST_F(Jobs, ANameStandsForItsJobAsDoesItsBeginning) {
  service_.answer("GET /v1/jobs", a_page("jobs", {a_job("running"), a_job("failed", {{"id", "j2"}, {"name", "other"}}),
                                                  a_job("failed", {{"id", "j3"}, {"name", "otto"}})}));
  service_.answer("GET /v1/jobs/j1", a_job("running"));
  EXPECT_THAT(run({"show", "demo"}).out, HasSubstr("j1"));
  EXPECT_THAT(run({"--json", "show", "de"}).out, HasSubstr("j1"));
  const Said ambiguous = run({"show", "ot"});
  EXPECT_EQ(ambiguous.exit_code, 2);
  EXPECT_THAT(ambiguous.err, HasSubstr("j2 (other), j3 (otto)"));
  const Said unknown = run({"show", "nobody"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("nobody"));
}

TEST_F(Jobs, ActionsArePosted) {
  for (const char* action : {"stop", "pause", "resume"}) {
    const std::string call = std::string("POST /v1/jobs/j1/") + action;
    service_.answer(call, a_job("running"), 202);
    EXPECT_EQ(run({action, "j1"}).exit_code, 0);
    EXPECT_EQ(service_.body_of(call), Json::object());
  }
}

TEST_F(Jobs, ScaleSetsTheNumberOrTheBounds) {
  service_.answer("POST /v1/jobs/j1/scale", a_job("running"));
  EXPECT_EQ(run({"scale", "j1", "3"}).exit_code, 0);
  EXPECT_EQ(run({"scale", "--max_nodes", "2", "j1", "--min-nodes", "1"}).exit_code, 0);
  const auto requests = service_.requests("POST /v1/jobs/j1/scale");
  EXPECT_EQ(Json::parse(requests.at(0).body), (Json{{"nodes", 3}, {"max_nodes", 3}}));
  EXPECT_EQ(Json::parse(requests.at(1).body), (Json{{"min_nodes", 1}, {"max_nodes", 2}}));
}

TEST_F(Jobs, EventsAndLogsAreLinesOrTheApisObject) {
  service_.answer("GET /v1/jobs/j1/events", a_page("events", {an_event(1, "worker_lost", "w2 was killed")}));
  service_.answer("GET /v1/jobs/j1/logs", a_page("logs", {a_log("hello")}));
  EXPECT_EQ(run({"events", "j1"}).out, "03:04:05  worker_lost           w2 was killed\n");
  EXPECT_EQ(Json::parse(run({"events", "j1", "--json"}).out)["events"][0]["id"], 1);
  EXPECT_THAT(run({"logs", "j1"}).out, HasSubstr("hello"));
}

TEST_F(Jobs, FollowedEventsEndWithTheJob) {
  service_.answer("GET /v1/jobs/j1", a_job("running"));
  service_.stream("GET /v1/jobs/j1/events",
                  {an_event(1, "worker_lost", "w2"), an_event(2, "job_succeeded", "done"), an_event(3, "never", "shown")});
  const Said said = run({"events", "j1", "-f"});
  EXPECT_EQ(said.exit_code, 0);
  EXPECT_THAT(said.out, HasSubstr("job_succeeded"));
  EXPECT_THAT(said.out, Not(HasSubstr("never")));
}

TEST_F(Jobs, FollowingAnEndedJobPrintsAndEnds) {
  service_.answer("GET /v1/jobs/j1", a_job("succeeded"));
  service_.answer("GET /v1/jobs/j1/logs", a_page("logs", {a_log("last words")}));
  EXPECT_THAT(run({"logs", "-f", "j1"}).out, HasSubstr("last words"));
}

TEST_F(Jobs, FollowedLogsGoOnWhereTheStreamBroke) {
  service_.answer("GET /v1/jobs/j1", a_job("running"));
  service_.answer("GET /v1/jobs/j1", a_job("running"));
  service_.answer("GET /v1/jobs/j1", a_job("succeeded"));
  service_.stream("GET /v1/jobs/j1/logs", {{{"id", 1}, {"text", "first"}}, {{"id", 2}, {"text", "second"}}});
  const Said said = run({"logs", "j1", "-f", "--json"});
  EXPECT_EQ(said.out, "{\"id\":1,\"text\":\"first\"}\n{\"id\":2,\"text\":\"second\"}\n");
  EXPECT_EQ(service_.requests("GET /v1/jobs/j1/logs").at(1).headers.at("last-event-id"), "2");
}

TEST_F(Jobs, WaitTellsWhatHappensAndExitsAsTheJobDoes) {
  for (const auto& [state, exit_code] : std::map<std::string, int>{{"succeeded", 0}, {"failed", 1}, {"cancelled", 1}}) {
    FakeService service;
    service.answer("GET /v1/jobs/j1", a_job("running"));
    service.answer("GET /v1/jobs/j1", a_job("running", {{"step", 41}}));
    service.answer("GET /v1/jobs/j1", a_job(state, {{"step", 60}, {"reason", "the reason"}}));
    service.answer("GET /v1/jobs/j1/events", a_page("events", {an_event(1, "job_submitted", "before")}));
    service.answer("GET /v1/jobs/j1/events",
                   a_page("events", {an_event(1, "job_submitted", "before"), an_event(2, "worker_lost", "w2 died")}));
    service.stream("GET /v1/jobs/j1/events", {an_event(1, "job_submitted", "before")});
    const Said said = holdfast({"wait", "j1", "--server", service.url()});
    EXPECT_EQ(said.exit_code, exit_code) << state;
    EXPECT_EQ(said.out, "");
    EXPECT_THAT(said.err,
                HasSubstr("step 40/60 (66%)  loss 3.4123  10,240 tokens/s  ETA 2m 14s  2 workers  checkpoint 20 (14s ago)"));
    EXPECT_THAT(said.err, HasSubstr("w2 died"));
    EXPECT_THAT(said.err, Not(HasSubstr("before"))) << "what was before is not told";
    EXPECT_THAT(said.err, HasSubstr("j1 " + state + " after step 60/60"));
  }
}

TEST_F(Jobs, SubmitAndWatchTellsAllEventsAndPrintsTheIdFirst) {
  service_.answer("POST /v1/jobs", a_job("queued"), 201);
  service_.answer("GET /v1/jobs/j1", a_job("succeeded"));
  service_.answer("GET /v1/jobs/j1/events", a_page("events", {an_event(1, "job_submitted", "from the start")}));
  service_.stream("GET /v1/jobs/j1/events", {an_event(1, "job_submitted", "from the start")});
  const Said said = run({"submit", "--watch"});
  EXPECT_EQ(said.exit_code, 0);
  EXPECT_EQ(said.out, "j1\n");
  EXPECT_THAT(said.err, HasSubstr("from the start"));
}

TEST_F(Jobs, WaitGivesUpAtItsTimeout) {
  service_.answer("GET /v1/jobs/j1", a_job("waiting", {{"reason", "1 of 2 workers"}}));
  service_.answer("GET /v1/jobs/j1/events", a_page("events", {}));
  const Said said = run({"wait", "j1", "--timeout", "0.1"});
  EXPECT_EQ(said.exit_code, 1);
  EXPECT_THAT(said.err, HasSubstr("waiting  step 40/60 (66%): 1 of 2 workers"));
  EXPECT_THAT(said.err, HasSubstr("j1 is still waiting after 0.1s"));
}

TEST_F(Jobs, NodesAreATableOrTheApisObjectAndDrainIsPosted) {
  const Json node = {{"id", "w1"},   {"state", "alive"},          {"phase", "active"},    {"job", "j1"},
                     {"step", 40},   {"last_seen_s", 0.3},        {"memory_bytes", 64e9}, {"device", "cpu"},
                     {"threads", 2}, {"device_model", "Some CPU"}};
  service_.answer("GET /v1/nodes", a_page("nodes", {node}));
  EXPECT_EQ(Json::parse(run({"nodes", "--json"}).out)["nodes"][0], node);
  const std::string table = run({"nodes"}).out;
  for (const char* part : {"w1", "alive", "0.3s", "64.0 GB", "cpu x2 Some CPU"}) EXPECT_THAT(table, HasSubstr(part));
  service_.answer("POST /v1/nodes/w 1/drain", node, 202);
  EXPECT_EQ(run({"drain", "w 1"}).exit_code, 0) << "the id is percent-encoded";
}

TEST_F(Jobs, CheckpointsAreATableOrTheApisObject) {
  const Json checkpoint = {{"step", 60},         {"created_at", "2026-01-02T03:04:05Z"},
                           {"raw_bytes", 122},   {"stored_bytes", 100},
                           {"stall_s", 0.05},    {"write_s", 2.5},
                           {"state_hash", "abc"}};
  service_.answer("GET /v1/jobs/j1/checkpoints", a_page("checkpoints", {checkpoint}));
  EXPECT_EQ(Json::parse(run({"checkpoints", "j1", "--json"}).out)["checkpoints"][0], checkpoint);
  EXPECT_THAT(run({"checkpoints", "j1"}).out, HasSubstr("1.22x"));
}

}  // namespace
}  // namespace holdfast::ops
