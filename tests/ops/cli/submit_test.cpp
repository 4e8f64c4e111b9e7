// `holdfast submit`: the spec that flags and files become, and submits that are only tried or printed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>

#include "tests/ops/cli/fake_jobs.h"

namespace holdfast::ops {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

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

TEST_F(Jobs, SubmitLeavesValuesThatAreNotNumbersToTheServicesCheck) {
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

TEST_F(Jobs, ATokenForWorkersThatAreNeverStartedIsRevoked) {
  service_.answer("POST /v1/tokens", {{"id", "t7"}, {"token", "hf_secret"}}, 201);
  service_.answer("DELETE /v1/tokens/t7", Json::object());
  service_.problem("POST /v1/jobs", 422, "batch_size: must be an integer");
  EXPECT_EQ(run({"submit", "--train_data_path", "/d/t.bin", "--launch", "ssh", "--hosts", "127.0.0.1"}).exit_code, 2);
  EXPECT_EQ(service_.requests("DELETE /v1/tokens/t7").size(), 1U);
}

TEST_F(Jobs, SubmitSaysTheOnlyErrorOnce) {
  service_.problem("POST /v1/jobs", 422, "after: there is no job \"j9\"",
                   Json::array({{{"field", "after"}, {"message", "there is no job \"j9\""}}}));
  EXPECT_EQ(run({"submit", "--train_data_path", "/d/t.bin", "--after", "j9"}).err, "holdfast: after: there is no job \"j9\"\n");
}

TEST_F(Jobs, TheUsualStoreOfCheckpointsIsForJobsThatHaveSome) {
  setenv("HOLDFAST_CHECKPOINT_STORE", "/shared/checkpoints", 1);
  const Said trains = run({"submit", "--train_data_path", "/d/t.bin", "--print_config"});
  const Said serves = run({"submit", "--kind", "serve", "--init_from", "job:j1", "--print_config"});
  unsetenv("HOLDFAST_CHECKPOINT_STORE");
  EXPECT_EQ(Json::parse(trains.out)["checkpoint_store"], "/shared/checkpoints");
  EXPECT_FALSE(Json::parse(serves.out).contains("checkpoint_store")) << serves.out;
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

TEST_F(Jobs, SubmitMakesExistingPathsAbsoluteAndLeavesOthers) {
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

TEST_F(Jobs, SubmitMakesThePathsOfAMixtureAbsoluteAndLeavesDataSets) {
  service_.answer("POST /v1/jobs", a_job("queued"), 201);
  const fs::path folder = fs::temp_directory_path() / ("holdfast-mixture-" + std::to_string(getpid()));
  fs::create_directories(folder / "with,comma");
  for (const char* name : {"a.bin", "data:wiki", "with,comma/a.bin"}) std::ofstream(folder / name) << "x";
  const fs::path before = fs::current_path();
  fs::current_path(folder);
  const std::string here = fs::current_path();
  const auto sent = [&](const std::string& text) {
    const Said said = run({"submit", "--train_data_path", text, "--valid_data_path", "data:wiki"});
    EXPECT_EQ(said.exit_code, 0) << said.err;
    const Json body = Json::parse(service_.requests("POST /v1/jobs").back().body);
    EXPECT_EQ(body["valid_data_path"], "data:wiki") << "the data set, though there is a file of that name";
    return body["train_data_path"].get<std::string>();
  };
  EXPECT_EQ(sent("a.bin:0.7,elsewhere.bin:0.2,code:0.1"), here + "/a.bin:7,elsewhere.bin:2,data:code/train.bin:1");
  EXPECT_EQ(sent("wiki:0.7,code:0.3"), "wiki:0.7,code:0.3");
  EXPECT_EQ(sent("data:wiki"), "data:wiki");
  EXPECT_EQ(sent("a.bin:0.7,code"), "a.bin:0.7,code") << "the service says what is wrong with it";
  fs::current_path(folder / "with,comma");
  const Said said = run({"submit", "--train_data_path", "a.bin:0.7,code:0.3"});
  EXPECT_EQ(said.exit_code, 2);
  EXPECT_THAT(said.err, HasSubstr("a folder of a file in it has a comma in its name"));
  fs::current_path(before);
  fs::remove_all(folder);
}

TEST_F(Jobs, SubmitTakesAKeyUnderWhichItCanBeTriedAgain) {
  service_.answer("POST /v1/jobs", a_job("queued"), 201);
  EXPECT_EQ(run({"submit", "--idempotency_key", "night 7"}).exit_code, 0);
  EXPECT_EQ(service_.requests("POST /v1/jobs").at(0).headers.at("idempotency-key"), "night 7");
  EXPECT_EQ(service_.body_of("POST /v1/jobs"), Json::object());
}

TEST_F(Jobs, SubmitAsJsonIsTheJob) {
  service_.answer("POST /v1/jobs", a_job("queued"), 201);
  EXPECT_EQ(Json::parse(run({"submit", "--json"}).out)["id"], "j1");
}

TEST_F(Jobs, SubmitTriesASpecWithoutMakingAJob) {
  service_.answer("POST /v1/jobs",
                  {{"spec", {{"seed", 1}}}, {"warnings", {"min_nodes is 1"}}, {"would", "It would wait for 1 worker."}});
  const Said said = run({"submit", "--train_data_path", "/d/t.bin", "--dry-run"});
  EXPECT_EQ(said.exit_code, 0) << said.err;
  EXPECT_EQ(said.out, "The spec is good; nothing was submitted.\nIt would wait for 1 worker.\nwarning: min_nodes is 1\n");
  EXPECT_EQ(service_.requests("POST /v1/jobs").at(0).query.at("dry_run"), "1");
  EXPECT_EQ(Json::parse(run({"submit", "--dry_run", "--json"}).out)["spec"]["seed"], 1);
}

TEST_F(Jobs, SubmitSaysSoWhenAServiceMadeAJobOfADryRun) {
  service_.answer("POST /v1/jobs", a_job("queued"), 201);
  const Said said = run({"submit", "--dry_run"});
  EXPECT_NE(said.exit_code, 0);
  EXPECT_THAT(said.err, HasSubstr("holdfast stop j1"));
}

TEST_F(Jobs, SubmitPrintsTheConfigThatItWouldSendWithoutAService) {
  const fs::path file = fs::temp_directory_path() / ("holdfast-print-" + std::to_string(getpid()) + ".json");
  std::ofstream(file) << R"({"train_data_path": "/d/t.bin", "total_steps": 5})";
  const Said said = run({"submit", "--config", file, "--print_config", "--total_steps", "7", "--labels", "a=b"});
  EXPECT_EQ(said.exit_code, 0) << said.err;
  const Json config = Json::parse(said.out);
  EXPECT_EQ(config, (Json{{"train_data_path", "/d/t.bin"}, {"total_steps", 7}, {"labels", {{"a", "b"}}}}));
  EXPECT_TRUE(service_.requests("POST /v1/jobs").empty());
  std::ofstream(file) << said.out;
  EXPECT_EQ(Json::parse(run({"submit", "--config", file, "--print_config"}).out), config) << "it can be read again";
  std::ofstream(file) << R"({"total_step": 5, "colour": "red"})";
  const Said unknown = run({"submit", "--config", file, "--print_config"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("total_step: no such field; did you mean total_steps?"));
  EXPECT_THAT(unknown.err, HasSubstr("colour: no such field; `holdfast help job_spec`"));
  fs::remove(file);
}

TEST_F(Jobs, SubmitTakesAConfigFromStdin) {
  service_.answer("POST /v1/jobs", a_job("queued"), 201);
  std::istringstream config(R"({"train_data_path": "/d/t.bin"})");
  auto* const before = std::cin.rdbuf(config.rdbuf());
  const Said said = run({"submit", "--config", "-", "--seed", "3"});
  std::cin.rdbuf(before);
  EXPECT_EQ(said.exit_code, 0) << said.err;
  EXPECT_EQ(service_.body_of("POST /v1/jobs"), (Json{{"train_data_path", "/d/t.bin"}, {"seed", 3}}));
}

TEST_F(Jobs, SubmitTellsAJobFromAJobSpec) {
  const fs::path file = fs::temp_directory_path() / ("holdfast-job-" + std::to_string(getpid()) + ".json");
  std::ofstream(file) << a_job("running").dump();
  const Said said = run({"submit", "--config", file});
  EXPECT_EQ(said.exit_code, 2);
  EXPECT_THAT(said.err, HasSubstr("`holdfast show j1 --spec` prints the spec alone"));
  fs::remove(file);
}

}  // namespace
}  // namespace holdfast::ops
