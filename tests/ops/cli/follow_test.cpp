// `holdfast logs` and `holdfast events`: past rows, followed rows, filtered rows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "tests/ops/cli/fake_jobs.h"

namespace holdfast::ops {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(Jobs, EventsAndLogsAreLinesOrTheApisObject) {
  service_.answer("GET /v1/jobs/j1/events", a_page("events", {an_event(1, "worker_lost", "w2 was killed")}));
  service_.answer("GET /v1/jobs/j1/logs", a_page("logs", {a_log("hello")}));
  EXPECT_EQ(run({"events", "j1"}).out, "03:04:05  worker_lost           w2 was killed\n");
  EXPECT_EQ(Json::parse(run({"events", "j1", "--json"}).out)["events"][0]["id"], 1);
  EXPECT_THAT(run({"logs", "j1"}).out, HasSubstr("hello"));
}

TEST_F(Jobs, FollowedEventsEndWithTheJob) {
  service_.answer("GET /v1/jobs/j1", a_job("running"));
  service_.answer("GET /v1/jobs/j1", a_job("succeeded"));
  service_.answer("GET /v1/jobs/j1/events", a_page("events", {}));
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
  service_.answer("GET /v1/jobs/j1/logs", a_page("logs", {}));
  const Said said = run({"logs", "j1", "-f", "--json"});
  EXPECT_EQ(said.out, "{\"id\":1,\"text\":\"first\"}\n{\"id\":2,\"text\":\"second\"}\n");
  EXPECT_EQ(service_.requests("GET /v1/jobs/j1/logs").at(1).headers.at("last-event-id"), "2");
}

class Logs : public Jobs {
 protected:
  static Json line(int id, const std::string& worker, const std::string& level) {
    return {{"id", id}, {"worker", worker}, {"level", level}, {"text", "line " + std::to_string(id)}};
  }
  std::vector<int64_t> ids(const Said& said) {
    EXPECT_EQ(said.exit_code, 0) << said.err;
    std::vector<int64_t> found;
    const Json all = Json::parse(said.out);
    for (const Json& log : all["logs"]) found.push_back(log["id"]);
    return found;
  }
  const std::vector<Json> lines_{line(1, "w1", "info"), line(2, "w2", "warning"), line(3, "w1", "error"),
                                 line(4, "w2", "debug")};
};

TEST_F(Logs, ATailIsAskedOfTheServiceUnlessLinesAreFiltered) {
  service_.answer("GET /v1/jobs/j1/logs", a_page("logs", {lines_[2], lines_[3]}));
  EXPECT_EQ(ids(run({"logs", "j1", "--tail", "2", "--json"})), (std::vector<int64_t>{3, 4}));
  EXPECT_EQ(service_.requests("GET /v1/jobs/j1/logs").at(0).query.at("tail"), "2");
}

TEST_F(Logs, AreFilteredByWorkerAndLevelBeforeTheTailIsCut) {
  service_.answer("GET /v1/jobs/j1/logs", a_page("logs", lines_));
  EXPECT_EQ(ids(run({"logs", "j1", "--worker", "w1", "--json"})), (std::vector<int64_t>{1, 3}));
  EXPECT_EQ(ids(run({"logs", "j1", "--level", "warning", "--json"})), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(ids(run({"logs", "j1", "--level", "warning", "-n", "1", "--json"})), (std::vector<int64_t>{3}));
  EXPECT_EQ(ids(run({"logs", "j1", "-n", "0", "--json"})), (std::vector<int64_t>{}));
  EXPECT_THAT(run({"logs", "j1", "--level", "loud"}).err, HasSubstr("loud"));
}

TEST_F(Logs, FollowedFromATailGoOnBehindIt) {
  service_.answer("GET /v1/jobs/j1", a_job("running"));
  service_.answer("GET /v1/jobs/j1", a_job("succeeded"));
  service_.answer("GET /v1/jobs/j1/logs", a_page("logs", {lines_[1]}));
  service_.answer("GET /v1/jobs/j1/logs", a_page("logs", {lines_[3]}));
  service_.stream("GET /v1/jobs/j1/logs", {lines_[0], lines_[1], lines_[2]});
  const Said said = run({"logs", "j1", "-f", "--tail", "1"});
  EXPECT_EQ(said.exit_code, 0) << said.err;
  const auto requests = service_.requests("GET /v1/jobs/j1/logs");
  ASSERT_EQ(requests.size(), 3U) << "the tail, the stream, and what came after the job's end";
  EXPECT_EQ(requests[1].headers.at("last-event-id"), "2");
  EXPECT_EQ(requests[2].query.at("after"), "3");
  EXPECT_LT(said.out.find("line 2"), said.out.find("line 3"));
  EXPECT_LT(said.out.find("line 3"), said.out.find("line 4"));
  EXPECT_THAT(said.out, Not(HasSubstr("line 1")));
}

TEST_F(Logs, AFollowerWaitsForAServiceThatIsBusyOrStopping) {
  service_.answer("GET /v1/jobs/j1", a_job("running"));
  service_.answer("GET /v1/jobs/j1", a_job("succeeded"));
  for (const int status : {503, 429}) service_.problem("GET /v1/jobs/j1/logs", status, "try again");
  service_.answer("GET /v1/jobs/j1/logs", a_page("logs", lines_));
  const Said said = run({"logs", "j1", "-f"});
  EXPECT_EQ(said.exit_code, 0);
  EXPECT_THAT(said.out, HasSubstr("line 4"));
  EXPECT_EQ(said.err, "The service is away. Waiting for it to come back.\n") << "once";
}

// The tail was read before the restore, from a database with more rows than the one of the stream.
TEST_F(Logs, AFollowerOfARestoredServiceTakesItsLowerIds) {
  service_.answer("GET /v1/jobs/j1", a_job("running"));
  service_.answer("GET /v1/jobs/j1", a_job("succeeded"));
  service_.answer("GET /v1/jobs/j1/logs", a_page("logs", {line(3, "w1", "info")}));
  service_.answer("GET /v1/jobs/j1/logs", a_page("logs", {line(2, "w1", "info"), line(3, "w1", "info")}));
  const Json never = line(9, "w1", "info");
  service_.stream("GET /v1/jobs/j1/logs", {never, never, never, line(1, "w1", "info"), line(2, "w1", "info")});
  const Said said = run({"logs", "j1", "-f", "--tail", "1"});
  EXPECT_EQ(said.exit_code, 0) << said.err;
  EXPECT_THAT(said.err, HasSubstr("The service goes on with id 1 after 3: its database was restored from an older copy"));
  std::vector<std::string> texts;
  std::istringstream lines(said.out);
  for (std::string text; std::getline(lines, text);) texts.push_back(text.substr(text.find("line ")));
  EXPECT_THAT(texts, ::testing::ElementsAre("line 3", "line 1", "line 2", "line 3"));
}

TEST_F(Jobs, EventsOfAllJobsFailAtOnceWithoutAService) {
  const Said said = holdfast({"events", "-f", "--server", "http://127.0.0.1:1"});
  EXPECT_EQ(said.exit_code, 3) << said.err;
}

TEST_F(Logs, AFollowerGivesUpWhenItIsRefused) {
  service_.answer("GET /v1/jobs/j1", a_job("running"));
  service_.problem("GET /v1/jobs/j1/logs", 403, "not yours");
  EXPECT_EQ(run({"logs", "j1", "-f"}).exit_code, 4);
}

TEST_F(Jobs, EventsWithoutAJobAreTheEventsOfAllJobs) {
  Json of_no_job = an_event(2, "service_started", "hello");
  of_no_job["job"] = nullptr;
  service_.answer("GET /v1/events", a_page("events", {an_event(1, "worker_lost", "w2"), of_no_job}));
  EXPECT_EQ(run({"events"}).out,
            "j1     03:04:05  worker_lost           w2\n"
            "-      03:04:05  service_started       hello\n");
  EXPECT_EQ(Json::parse(run({"events", "-n", "1", "--json"}).out)["events"].size(), 1U);
}

}  // namespace
}  // namespace holdfast::ops
