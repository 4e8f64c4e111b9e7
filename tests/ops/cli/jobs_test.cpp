// Commands about jobs and workers, over prepared answers: their requests to the service, and their output for people.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/ops/cli/fake_jobs.h"

namespace holdfast::ops {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

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

TEST_F(Jobs, LsWithoutJobsSaysHowToSubmit) {
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
  EXPECT_EQ(run({"scale", "j1", "--replicas", "3"}).exit_code, 0);
  const auto requests = service_.requests("POST /v1/jobs/j1/scale");
  EXPECT_EQ(Json::parse(requests.at(2).body), (Json{{"replicas", 3}}));
  EXPECT_EQ(Json::parse(requests.at(0).body), (Json{{"nodes", 3}, {"max_nodes", 3}}));
  EXPECT_EQ(Json::parse(requests.at(1).body), (Json{{"min_nodes", 1}, {"max_nodes", 2}}));
}

TEST_F(Jobs, NodesAreATableOrTheApisObjectAndDrainIsPosted) {
  const Json node = {{"id", "w1"},
                     {"state", "alive"},
                     {"phase", "active"},
                     {"job", "j1"},
                     {"step", 40},
                     {"last_seen_s", 0.3},
                     {"memory_bytes", 64e9},
                     {"device", "cpu"},
                     {"threads", 2},
                     {"device_model", "Some CPU"},
                     {"load", {{"busy", 0.973}, {"memory_used_bytes", 1.5e9}, {"watts", 212.4}, {"celsius", 61.0}}}};
  service_.answer("GET /v1/nodes", a_page("nodes", {node}));
  EXPECT_EQ(Json::parse(run({"nodes", "--json"}).out)["nodes"][0], node);
  const std::string table = run({"nodes"}).out;
  for (const char* part : {"w1", "alive", "0.3s", "64.0 GB", "97%", "1.5 GB", "212 W, 61 C", "cpu x2 Some CPU"})
    EXPECT_THAT(table, HasSubstr(part));
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

TEST_F(Jobs, LsHandsFiltersToTheServiceAndStopsAtItsLimit) {
  service_.answer("GET /v1/jobs", a_page("jobs", {a_job("running"), a_job("running", {{"id", "j0"}})}, "p2"));
  const Said said = run({"ls", "--state", "running", "--name", "a b", "--label", "team=nlp", "--limit", "2", "--json"});
  EXPECT_EQ(said.exit_code, 0) << said.err;
  const Json list = Json::parse(said.out);
  EXPECT_EQ(list["jobs"].size(), 2U);
  EXPECT_EQ(list["next_page_token"], "p2") << "there is more";
  const auto requests = service_.requests("GET /v1/jobs");
  ASSERT_EQ(requests.size(), 1U);
  EXPECT_EQ(requests[0].query.at("state"), "running");
  EXPECT_EQ(requests[0].query.at("name"), "a b");
  EXPECT_EQ(requests[0].query.at("limit"), "2");
  EXPECT_EQ(requests[0].query.at("label"), "team=nlp");
  EXPECT_THAT(run({"ls", "--limit", "2"}).out, HasSubstr("The newest 2; --limit 0 lists all."));
  run({"ls", "--page_token", "p2", "--limit", "1", "--json"});
  EXPECT_EQ(service_.requests("GET /v1/jobs").back().query.at("page_token"), "p2");
  EXPECT_THAT(run({"ls", "--state", "runing"}).err, HasSubstr("runing"));
}

TEST_F(Jobs, LsWithFiltersThatMatchNothingSaysSo) {
  service_.answer("GET /v1/jobs", a_page("jobs", {}));
  EXPECT_THAT(run({"ls", "--state", "failed"}).out, HasSubstr("No job is like that"));
}

TEST_F(Jobs, JobsLsAndShowAreLsAndShow) {
  service_.answer("GET /v1/jobs", a_page("jobs", {a_job("running")}));
  service_.answer("GET /v1/jobs/j1", a_job("running"));
  EXPECT_EQ(run({"jobs", "ls"}).out, run({"ls"}).out);
  EXPECT_EQ(run({"jobs", "show", "j1"}).out, run({"show", "j1"}).out);
}

TEST_F(Jobs, SubmitTakesTheSpecThatShowPrints) {
  service_.answer("GET /v1/jobs/j1", a_job("running"));
  EXPECT_EQ(Json::parse(run({"show", "j1", "--spec"}).out), a_job("running")["spec"]);
}

TEST_F(Jobs, ShowSaysWhatAQueuedJobWaitsFor) {
  service_.answer("GET /v1/jobs/j1",
                  a_job("queued", {{"reason", "queued"}, {"waits_for", {{"kind", "job"}, {"text", "j0 to succeed"}}}}));
  EXPECT_THAT(run({"show", "j1"}).out, HasSubstr("waits for         j0 to succeed"));
}

}  // namespace
}  // namespace holdfast::ops
