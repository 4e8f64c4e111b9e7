// `holdfast profile`: what it asks for, what it writes and prints, and how it ends when there is no profile.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/ops/cli/fake_jobs.h"

namespace holdfast::ops {
namespace {

using testing::HasSubstr;

Json a_rank(int number, const std::string& part, const std::string& reason = "") {
  return {{"rank", number},
          {"worker", "w" + std::to_string(number + 1)},
          {"part", part},
          {"reason", reason},
          {"spans", 900},
          {"dropped_spans", 0},
          {"clock_offset_us", number * 7.5},
          {"clock_error_us", number * 32.0}};
}

Json a_profile(const std::string& state, const Json& more = Json::object()) {
  Json profile = {
      {"id", "p1"},       {"job", "j1"},     {"state", state}, {"reason", ""},
      {"generation", 1},  {"from_step", 41}, {"steps", 20},    {"ranks", {a_rank(0, "awaited"), a_rank(1, "awaited")}},
      {"result", nullptr}};
  profile.update(more);
  return profile;
}

Json a_result() {
  const Json both = {{{"rank", 0}, {"seconds", 0.05}}, {{"rank", 1}, {"seconds", 0.051}}};
  const Json unlike = {{{"rank", 0}, {"seconds", 0.001}}, {{"rank", 1}, {"seconds", 0.019}}};
  return {{"first_step", 41},
          {"last_step", 60},
          {"steps", 20},
          {"step_s", 0.1},
          {"phases", Json::array()},
          {"costs",
           {{{"name", "matmul backward"},
             {"kind", "op"},
             {"thread", "train"},
             {"seconds", 0.0505},
             {"share", 0.505},
             {"ranks", both}},
            {{"name", "all-gather"},
             {"kind", "all-gather"},
             {"thread", "train"},
             {"seconds", 0.01},
             {"share", 0.1},
             {"ranks", unlike}}}}};
}

class ProfileCommand : public Jobs {
 protected:
  ProfileCommand() {
    std::filesystem::create_directories(folder_);
    service_.answer("POST /v1/jobs/j1/profile", a_profile("recording"), 202);
  }
  ~ProfileCommand() override { std::filesystem::remove_all(folder_); }
  std::string written() const {
    std::ifstream file(path_);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
  const std::string folder_ = testing::TempDir() + "profile-command-" + std::to_string(getpid()), path_ = folder_ + "/t.json";
};

TEST_F(ProfileCommand, WaitsWritesTheTraceAndPrintsTheCosts) {
  service_.answer("GET /v1/jobs/j1/profile", a_profile("recording"));
  service_.answer("GET /v1/jobs/j1/profile", a_profile("merging"));
  service_.answer("GET /v1/jobs/j1/profile",
                  a_profile("done", {{"result", a_result()}, {"ranks", {a_rank(0, "here"), a_rank(1, "here")}}}));
  service_.answer("GET /v1/jobs/j1/profile/trace", {{"traceEvents", Json::array()}});
  const Said said = run({"profile", "j1", "--steps", "20", "--output", path_});
  EXPECT_EQ(said.exit_code, 0) << said.err;
  EXPECT_EQ(service_.body_of("POST /v1/jobs/j1/profile"), (Json{{"steps", 20}}));
  EXPECT_THAT(said.err, HasSubstr("Recording steps 41 to 60 of j1 on 2 ranks"));
  EXPECT_THAT(said.out, HasSubstr("j1: a step takes 100 ms (mean of 20 steps, 41 to 60, on 2 ranks, clocks within 32 us)"));
  EXPECT_THAT(said.out, testing::ContainsRegex("matmul backward +train +50.5 ms +50 % +all 2 ranks"));
  EXPECT_THAT(said.out, testing::ContainsRegex("all-gather +train +10.0 ms +10 % +all 2 ranks, rank 1 the longest: 19.0 ms"));
  EXPECT_EQ(written(), "{\"traceEvents\":[]}");
}

TEST_F(ProfileCommand, NamesRanksThatAreMissingOrEndedEarly) {
  service_.answer(
      "GET /v1/jobs/j1/profile",
      a_profile("done", {{"result", a_result()},
                         {"ranks", {a_rank(0, "here", "w1 lost its connection"), a_rank(1, "missing", "w2 was lost")}}}));
  service_.answer("GET /v1/jobs/j1/profile/trace", Json::object());
  const Said said = run({"profile", "j1", "--output", path_});
  EXPECT_THAT(said.out, HasSubstr("on 1 rank"));
  EXPECT_THAT(said.out, HasSubstr("Rank 0 (w1) ended early: w1 lost its connection\n"));
  EXPECT_THAT(said.out, HasSubstr("Rank 1 (w2) is missing: w2 was lost\n"));
}

TEST_F(ProfileCommand, AProfileThatFailedIsExitCodeOneWithItsReason) {
  service_.answer("GET /v1/jobs/j1/profile", a_profile("failed", {{"reason", "the ranks have no whole step in common"}}));
  const Said said = run({"profile", "j1", "--output", path_});
  EXPECT_EQ(said.exit_code, 1);
  EXPECT_THAT(said.err, HasSubstr("no profile of j1: the ranks have no whole step in common"));
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(ProfileCommand, AServiceThatHasRestartedHasLostIt) {
  service_.problem("GET /v1/jobs/j1/profile", 404, "there is no profile of j1");
  const Said said = run({"profile", "j1", "--output", path_});
  EXPECT_EQ(said.exit_code, 1);
  EXPECT_THAT(said.err, HasSubstr("the profile of j1 is lost: "));
}

TEST_F(ProfileCommand, APlaceThatCannotBeWrittenIsSaidBeforeTheJobIsAsked) {
  const Said said = run({"profile", "j1", "--output", folder_ + "/not-there/t.json"});
  EXPECT_EQ(said.exit_code, 2);
  EXPECT_THAT(said.err, HasSubstr("expected a file in a folder that is there"));
  EXPECT_TRUE(service_.requests("POST /v1/jobs/j1/profile").empty());
}

TEST_F(ProfileCommand, ATraceThatDoesNotComeLeavesTheCosts) {
  service_.answer("GET /v1/jobs/j1/profile",
                  a_profile("done", {{"result", a_result()}, {"ranks", {a_rank(0, "here"), a_rank(1, "here")}}}));
  service_.problem("GET /v1/jobs/j1/profile/trace", 409, "profile p1 of j1 is gone: p2 was begun after it");
  const Said said = run({"profile", "j1", "--output", path_});
  EXPECT_EQ(said.exit_code, 1);
  EXPECT_THAT(said.out, HasSubstr("matmul backward"));
  EXPECT_THAT(said.err, HasSubstr("the trace did not come: profile p1 of j1 is gone"));
}

TEST_F(ProfileCommand, JsonIsWhatTheServiceSaidAndWhereTheTraceIs) {
  service_.answer("GET /v1/jobs/j1/profile",
                  a_profile("done", {{"result", a_result()}, {"ranks", {a_rank(0, "here"), a_rank(1, "here")}}}));
  service_.answer("GET /v1/jobs/j1/profile/trace", Json::object());
  const Json said = Json::parse(run({"profile", "j1", "--output", path_, "--json"}).out);
  EXPECT_EQ(said["trace"], path_);
  EXPECT_EQ(said["result"]["costs"].size(), 2U);
}

}  // namespace
}  // namespace holdfast::ops
