// `holdfast submit --auto`: what is asked of the service, which settings are taken, when a trial is run, and what is said.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "ops/cli/submit/trial.h"
#include "tests/ops/cli/fake_jobs.h"

namespace holdfast::ops {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

Json a_row(const char* name, double of_one_node) {
  return {{"name", name},
          {"settings", "16 x 8, int16, overlap on"},
          {"tokens_per_s", 81920 * of_one_node},
          {"of_one_node", of_one_node}};
}

Json a_plan(bool link_known = true) {
  return {{"nodes", 2},
          {"verdict", "2 nodes do 1.31x of what one does alone with --wire_dtype int16 (1.02x as asked)."},
          {"comparison", {a_row("one node alone", 1), a_row("as asked", 1.02), a_row("the same training", 1.31)}},
          {"microbatch_s", 0.03},
          {"device_source", "measured by job j7"},
          {"link_bytes_per_s", 118e6},
          {"link_source", "measured by job j7"},
          {"link_known", link_known},
          {"round_trip_s", 0.0002},
          {"device_memory_bytes", nullptr},
          {"same_training", {{"flags", "--wire_dtype int16"}, {"changes", {{"wire_dtype", "int16"}}}}},
          {"notes", {"other bits"}}};
}

class SubmitAuto : public Jobs {
 protected:
  Said submit(std::vector<std::string> more = {}) {
    std::vector<std::string> all = {"submit", "--auto", "--train_data_path", "/d/t.bin", "--nodes", "2", "--batch_size", "16"};
    all.insert(all.end(), more.begin(), more.end());
    return run(all);
  }
  void knows_no_speed() {
    service_.answer(
        "POST /v1/plan",
        {{"status", 422}, {"title", "Not known"}, {"code", "speed_unknown"}, {"detail", "no job here has trained this model"}},
        422);
  }
  void has_free_workers(int free) {
    service_.answer("POST /v1/jobs",
                    {{"spec", Json::object()}, {"warnings", Json::array()}, {"would", ""}, {"free_workers", free}});
  }
};

TEST_F(SubmitAuto, TakesTheSettingsThatTrainTheSameAndShowsThePlanFirst) {
  service_.answer("POST /v1/plan", a_plan());
  service_.answer("POST /v1/jobs", a_job("queued"), 201);
  const Said said = submit();
  EXPECT_EQ(said.exit_code, 0) << said.err;
  EXPECT_EQ(said.out, "j1\n") << "for scripts";
  EXPECT_THAT(said.err, StartsWith("2 nodes do 1.31x of what one does alone"));
  EXPECT_THAT(said.err, HasSubstr("the same training  16 x 8, int16, overlap on"));
  EXPECT_THAT(said.err, HasSubstr("link    118 MB/s (0.944 Gbit/s) each way, round trip 200 us: measured by job j7"));
  EXPECT_THAT(said.err, HasSubstr("note: other bits"));
  EXPECT_THAT(said.err, HasSubstr("taken   --wire_dtype int16"));
  const Json given = {{"train_data_path", "/d/t.bin"}, {"nodes", 2}, {"batch_size", 16}};
  EXPECT_EQ(service_.body_of("POST /v1/plan"), (Json{{"spec", given}, {"keep", {"train_data_path", "nodes", "batch_size"}}}));
  Json sent = given;
  sent["wire_dtype"] = "int16";
  EXPECT_EQ(service_.body_of("POST /v1/jobs"), sent);
}

TEST_F(SubmitAuto, TellsTheServiceWhatIsKnownBetter) {
  service_.answer("POST /v1/plan", a_plan());
  service_.answer("POST /v1/jobs", a_job("queued"), 201);
  submit({"--microbatch_s", "0.03", "--link_mb_s", "118", "--rtt_ms", "0.1", "--device_memory_gib", "24"});
  Json body = service_.body_of("POST /v1/plan");
  body.erase("spec");
  body.erase("keep");
  EXPECT_EQ(body, (Json{{"microbatch_s", 0.03}, {"link_mb_s", 118}, {"rtt_ms", 0.1}, {"device_memory_gib", 24}}));
  EXPECT_EQ(run({"submit", "--microbatch_s", "1"}).exit_code, 2) << "it belongs to --auto";
}

TEST_F(SubmitAuto, AFieldThatThereIsNotIsLeftToTheSpecsOwnCheck) {
  service_.problem("POST /v1/plan", 400, "learning_rat: no such field");
  const std::string path = testing::TempDir() + "submit-auto-" + std::to_string(getpid()) + ".json";
  std::ofstream(path) << R"({"learning_rat": 1e-3})";
  EXPECT_THAT(submit({"--config", path}).err, HasSubstr("learning_rat: no such field"));
  const Json body = service_.body_of("POST /v1/plan");
  EXPECT_TRUE(body["spec"].contains("learning_rat")) << body;
  EXPECT_EQ(body["keep"].size(), 3U) << body;
  std::filesystem::remove(path);
}

TEST_F(SubmitAuto, AsJsonGivesTheReportBesideTheJob) {
  service_.answer("POST /v1/plan", a_plan());
  service_.answer("POST /v1/jobs", a_job("queued"), 201);
  const Said said = submit({"--json"});
  const Json job = Json::parse(said.out);
  EXPECT_EQ(job["id"], "j1");
  EXPECT_EQ(job["plan"], a_plan());
  EXPECT_EQ(said.err, "");
}

TEST_F(SubmitAuto, AsADryRunPrintsThePlanAndSubmitsNothing) {
  service_.answer("POST /v1/plan", a_plan(false));
  service_.answer("POST /v1/jobs", {{"spec", Json::object()}, {"warnings", Json::array()}, {"would", "begin at once"}});
  const Said said = submit({"--dry_run"});
  EXPECT_EQ(said.exit_code, 0) << said.err;
  EXPECT_THAT(said.out, StartsWith("2 nodes do 1.31x"));
  EXPECT_THAT(said.out, HasSubstr("nothing was submitted.\nbegin at once\n"));
  ASSERT_EQ(service_.requests("POST /v1/jobs").size(), 1U) << "and makes no trial";
  EXPECT_EQ(service_.requests("POST /v1/jobs")[0].query.at("dry_run"), "1");
  EXPECT_EQ(Json::parse(submit({"--dry_run", "--json"}).out)["plan"], a_plan(false));
}

TEST_F(SubmitAuto, RunsATrialWhereTheServiceKnowsNoSpeed) {
  knows_no_speed();
  service_.answer("POST /v1/plan", a_plan());
  has_free_workers(2);
  service_.answer("POST /v1/jobs", a_job("queued", {{"id", "j4"}}), 201);
  service_.answer("POST /v1/jobs", a_job("queued", {{"id", "j5"}}), 201);
  service_.answer("GET /v1/jobs/j4", a_job("running", {{"id", "j4"}, {"step", 3}}));
  service_.answer("GET /v1/jobs/j4", a_job("running", {{"id", "j4"}, {"step", 8}}));
  service_.answer("GET /v1/jobs/j4", a_job("cancelled", {{"id", "j4"}, {"step", 8}}));
  service_.answer("POST /v1/jobs/j4/stop", a_job("running"), 202);
  const Said said = submit({"--name", "books"});
  EXPECT_EQ(said.exit_code, 0) << said.err;
  EXPECT_EQ(said.out, "j5\n");
  EXPECT_THAT(said.err, StartsWith("trial j4: a few steps, to learn how fast the workers and their link are\n2 nodes do"));
  EXPECT_EQ(service_.body_of("POST /v1/jobs/j4/stop"), (Json{{"checkpoint", false}}));
  const auto sent = service_.requests("POST /v1/jobs");
  ASSERT_EQ(sent.size(), 3U);
  EXPECT_EQ(sent[0].query.at("dry_run"), "1");
  EXPECT_EQ(Json::parse(sent[1].body)["name"], "trial-of-books");
  EXPECT_EQ(Json::parse(sent[2].body)["name"], "books");
}

TEST_F(SubmitAuto, SaysWhatToDoWhereNothingIsKnownAndNoWorkerIsFree) {
  knows_no_speed();
  has_free_workers(1);
  const Said said = submit();
  EXPECT_EQ(said.exit_code, 2);
  EXPECT_THAT(said.err, HasSubstr("--auto has nothing to go by"));
  EXPECT_THAT(said.err, HasSubstr("a trial needs 2 free workers where 1 is"));
  EXPECT_THAT(said.err, HasSubstr("give --microbatch_s (and --link_mb_s, from `holdfast netcheck`), or submit without --auto"));
  const Said dry = submit({"--dry_run"});
  EXPECT_EQ(dry.exit_code, 2);
  EXPECT_THAT(dry.err, HasSubstr("a dry run makes no trial"));
}

TEST_F(SubmitAuto, GoesOnWithANominalLinkWhereNoWorkerIsFreeToMeasureIt) {
  service_.answer("POST /v1/plan", a_plan(false));
  has_free_workers(0);
  service_.answer("POST /v1/jobs", a_job("queued"), 201);
  const Said said = submit();
  EXPECT_EQ(said.exit_code, 0) << said.err;
  EXPECT_THAT(said.err,
              StartsWith("the link is not measured, and no 2 workers are free for a trial: 1 Gbit/s is taken for it\n2 nodes"));
}

TEST_F(SubmitAuto, EndsWithTheReasonOfATrialThatFailed) {
  knows_no_speed();
  has_free_workers(2);
  service_.answer("POST /v1/jobs", a_job("queued", {{"id", "j4"}}), 201);
  service_.answer("GET /v1/jobs/j4", a_job("failed", {{"id", "j4"}, {"step", 0}, {"reason", "out of memory"}}));
  const Said said = submit();
  EXPECT_EQ(said.exit_code, 1);
  EXPECT_THAT(said.err, HasSubstr("the trial j4 is failed: out of memory"));
  EXPECT_EQ(service_.requests("POST /v1/jobs").size(), 2U) << "the job itself is not submitted";
}

TEST_F(SubmitAuto, OfOneNodePlansNothing) {
  service_.answer("POST /v1/jobs", a_job("queued"), 201);
  const Said said = run({"submit", "--auto", "--train_data_path", "/d/t.bin"});
  EXPECT_EQ(said.exit_code, 0) << said.err;
  EXPECT_EQ(said.err, "One node: nothing is on the link, and the job stays as it is.\n");
  EXPECT_TRUE(service_.requests("POST /v1/plan").empty());
}

TEST_F(SubmitAuto, NamesAWrongFieldAndAServiceThatDoesNotPlan) {
  service_.problem("POST /v1/plan", 400, "model: \"huge\" is not one of tiny, small");
  const Said wrong = submit({"--model", "huge"});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("model: \"huge\" is not one of tiny"));
  FakeService old;
  const Said older = holdfast({"submit", "--auto", "--train_data_path", "x", "--nodes", "2", "--server", old.url()});
  EXPECT_EQ(older.exit_code, 2);
  EXPECT_THAT(older.err, HasSubstr("this service does not plan"));
}

TEST_F(SubmitAuto, NamesAServiceThatIsNotThere) {
  std::string url;
  {
    const FakeService gone;
    url = gone.url();
  }
  const Said said = holdfast({"submit", "--auto", "--train_data_path", "x", "--nodes", "2", "--server", url});
  EXPECT_EQ(said.exit_code, 3);
  EXPECT_THAT(said.err, HasSubstr(url));
}

TEST(TrialSpec, IsTheSameWorkForAFewStepsOnAtLeastTwoWorkers) {
  const Json spec = {{"train_data_path", "/d/t.bin"},
                     {"model", "small"},
                     {"nodes", 4},
                     {"batch_size", 16},
                     {"wire_dtype", "int16"},
                     {"epochs", 3},
                     {"resume_from", "latest"},
                     {"after", "j1"},
                     {"labels", {{"team", "nlp"}}},
                     {"global_batch_size", 512},
                     {"max_nodes", 8},
                     {"requires", {{"zone", "a"}}}};
  EXPECT_EQ(trial_spec(spec), (Json{{"train_data_path", "/d/t.bin"},
                                    {"model", "small"},
                                    {"nodes", 4},
                                    {"batch_size", 16},
                                    {"wire_dtype", "int16"},
                                    {"requires", {{"zone", "a"}}},
                                    {"name", "trial"},
                                    {"labels", {{"trial", "auto"}}},
                                    {"gradient_accumulation_steps", 1},
                                    {"overlap", "off"},
                                    {"min_nodes", 2},
                                    {"priority", -1000},
                                    {"checkpoint_every", 0},
                                    {"total_steps", 100000},
                                    {"max_runtime", 600}}));
}

}  // namespace
}  // namespace holdfast::ops
