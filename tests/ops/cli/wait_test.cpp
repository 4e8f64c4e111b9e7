// `holdfast wait` and --watch: their output while they wait, and their exit codes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/ops/cli/fake_jobs.h"

namespace holdfast::ops {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(Jobs, WaitPrintsEventsAndExitsAsTheJobDoes) {
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

TEST_F(Jobs, SubmitAndWatchPrintsTheIdFirstAndThenAllEvents) {
  service_.answer("POST /v1/jobs", a_job("queued"), 201);
  service_.answer("GET /v1/jobs/j1", a_job("succeeded"));
  service_.answer("GET /v1/jobs/j1/events", a_page("events", {an_event(1, "job_submitted", "from the start")}));
  service_.stream("GET /v1/jobs/j1/events", {an_event(1, "job_submitted", "from the start")});
  const Said said = run({"submit", "--watch"});
  EXPECT_EQ(said.exit_code, 0);
  EXPECT_EQ(said.out, "j1\n");
  EXPECT_THAT(said.err, HasSubstr("from the start"));
}

TEST_F(Jobs, WaitAsksAgainWhenTheServiceIsTooBusy) {
  service_.problem("GET /v1/jobs/j1", 429, "slower");
  service_.answer("GET /v1/jobs/j1", a_job("running"));
  service_.problem("GET /v1/jobs/j1", 429, "slower");
  service_.answer("GET /v1/jobs/j1", a_job("succeeded"));
  service_.problem("GET /v1/jobs/j1/events", 429, "slower");
  service_.answer("GET /v1/jobs/j1/events", a_page("events", {}));
  const Said said = run({"wait", "j1"});
  EXPECT_EQ(said.exit_code, 0) << said.err;
  EXPECT_THAT(said.err, HasSubstr("The service has too much to do. Asking again."));
}

TEST_F(Jobs, AWatcherOfARestoredServiceTakesItsLowerIds) {
  service_.answer("GET /v1/jobs/j1", a_job("running"));
  service_.answer("GET /v1/jobs/j1", a_job("running"));
  service_.answer("GET /v1/jobs/j1", a_job("running"));
  service_.answer("GET /v1/jobs/j1", a_job("running"));
  service_.answer("GET /v1/jobs/j1", a_job("succeeded"));
  service_.answer("GET /v1/jobs/j1/events", a_page("events", {an_event(2, "job_submitted", "before")}));
  service_.answer("GET /v1/jobs/j1/events", a_page("events", {an_event(1, "generation_formed", "the new first")}));
  const Json never = an_event(9, "never", "shown");
  service_.stream("GET /v1/jobs/j1/events", {never, never, an_event(1, "generation_formed", "the new first")});
  const Said said = run({"wait", "j1"});
  EXPECT_EQ(said.exit_code, 0) << said.err;
  EXPECT_THAT(said.err, HasSubstr("the service goes on with event 1 after 2"));
  EXPECT_THAT(said.err, HasSubstr("the new first"));
}

TEST_F(Jobs, WaitGivesUpAtItsTimeout) {
  service_.answer("GET /v1/jobs/j1", a_job("waiting", {{"reason", "1 of 2 workers"}}));
  service_.answer("GET /v1/jobs/j1/events", a_page("events", {}));
  const Said said = run({"wait", "j1", "--timeout", "0.1"});
  EXPECT_EQ(said.exit_code, 1);
  EXPECT_THAT(said.err, HasSubstr("waiting  step 40/60 (66%): 1 of 2 workers"));
  EXPECT_THAT(said.err, HasSubstr("j1 is still waiting after 0.1s"));
}

TEST_F(Jobs, WaitForSeveralExitsWithTheWorstOutcome) {
  service_.answer("GET /v1/jobs/j1", a_job("running"));
  service_.answer("GET /v1/jobs/j1", a_job("succeeded", {{"step", 60}}));
  service_.answer("GET /v1/jobs/j2", a_job("failed", {{"id", "j2"}, {"reason", "no data"}}));
  const Said said = run({"wait", "j1", "j2", "j1", "--json"});
  EXPECT_EQ(said.exit_code, 1);
  EXPECT_THAT(said.err, HasSubstr("j2 failed after step 40/60: no data\nj1 succeeded after step 60/60\n"));
  const Json jobs = Json::parse(said.out)["jobs"];
  ASSERT_EQ(jobs.size(), 2U) << "each once";
  EXPECT_EQ(jobs[0]["state"], "succeeded");
}

TEST_F(Jobs, WaitForSeveralGivesUpAndNamesTheUnfinishedJobs) {
  service_.answer("GET /v1/jobs/j1", a_job("succeeded"));
  service_.answer("GET /v1/jobs/j2", a_job("queued", {{"id", "j2"}}));
  const Said said = run({"wait", "j1", "j2", "--timeout", "0.1"});
  EXPECT_EQ(said.exit_code, 1);
  EXPECT_THAT(said.err, HasSubstr("j2 is still queued after 0.1s"));
}

TEST_F(Jobs, WaitForAStepOrForTheStart) {
  service_.answer("GET /v1/jobs/j1", a_job("running"));
  service_.answer("GET /v1/jobs/j1/events", a_page("events", {}));
  Said said = run({"wait", "j1", "--for", "step=40"});
  EXPECT_EQ(said.exit_code, 0) << said.err;
  EXPECT_THAT(said.err, HasSubstr("j1 is running at step 40/60"));
  EXPECT_EQ(run({"wait", "j1", "--for", "running"}).exit_code, 0);
  said = run({"wait", "j1", "--for", "step=61"});
  EXPECT_EQ(said.exit_code, 2);
  EXPECT_THAT(said.err, HasSubstr("j1 has 60 steps and never comes there"));
  for (const char* wrong : {"step", "step=", "step=0", "step=4x", "later"}) {
    said = run({"wait", "j1", "--for", wrong});
    EXPECT_EQ(said.exit_code, 2) << wrong;
    EXPECT_THAT(said.err, HasSubstr("expected ended, running, or a step")) << wrong;
  }
}

TEST_F(Jobs, WaitForAStateThatCannotComeAnyMoreFails) {
  service_.answer("GET /v1/jobs/j1", a_job("cancelled"));
  service_.answer("GET /v1/jobs/j1/events", a_page("events", {}));
  EXPECT_EQ(run({"wait", "j1", "--for", "running"}).exit_code, 1);
  const Said said = run({"wait", "j1", "--for", "step=50"});
  EXPECT_EQ(said.exit_code, 1);
  EXPECT_THAT(said.err, HasSubstr("j1 cancelled after step 40/60 (step 50 was waited for)"));
}

TEST_F(Jobs, ShowWithWatchIsThePrintedProgressAndExitsAsTheJobDoes) {
  service_.answer("GET /v1/jobs/j1", a_job("running"));
  service_.answer("GET /v1/jobs/j1", a_job("failed", {{"reason", "no data"}}));
  service_.answer("GET /v1/jobs/j1/events", a_page("events", {}));
  Said said = run({"show", "j1", "--watch"});
  EXPECT_EQ(said.exit_code, 1);
  EXPECT_THAT(said.out, HasSubstr("step 40/60 (66%)"));
  EXPECT_THAT(said.out, HasSubstr("j1 failed after step 40/60: no data"));
  EXPECT_EQ(said.err, "");
  EXPECT_EQ(Json::parse(run({"show", "j1", "--watch", "--json"}).out)["state"], "failed");
}

}  // namespace
}  // namespace holdfast::ops
