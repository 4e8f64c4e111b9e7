// The arithmetic of a drill's report.
#include "ops/cli/chaos/report.h"

#include <gmock/gmock.h>

namespace holdfast::ops {
namespace {

using ::testing::HasSubstr;

constexpr double kStepSeconds = 0.5;
constexpr int64_t kTokens = 100;

// Adds steps of equal length, one after another, until `until_s`.
void train(std::vector<Commit>& commits, double until_s, double step_s = kStepSeconds) {
  while (commits.back().at_s + step_s <= until_s + 1e-9)
    commits.push_back({commits.back().at_s + step_s, commits.back().step + 1, step_s, kTokens});
}

// A job that was undisturbed for 20 s, lost 2 s after a kill at 1023, and then had half its speed for 4 s.
Drill one_kill() {
  Drill drill;
  drill.job = "j1";
  drill.seed = 7;
  drill.begin_s = 1020;
  drill.end_s = 1040;
  drill.faults = {{1023, FaultKind::kKill, "w2", 0}};
  drill.commits = {{1000, 1, kStepSeconds, kTokens}};
  train(drill.commits, 1023);
  drill.commits.push_back({1023 + 2 + 1, drill.commits.back().step + 1, 1, kTokens});
  train(drill.commits, 1030, 1);
  train(drill.commits, 1040);
  drill.steps_lost = 0;
  return drill;
}

TEST(ChaosReport, CountsTimeWithoutAStepAndTimeOfSlowerSteps) {
  const DrillReport report = judge(one_kill());
  ASSERT_EQ(report.costs.size(), 1U);
  EXPECT_NEAR(report.costs[0].without_progress_s, 2, 1e-6);
  EXPECT_NEAR(report.costs[0].slower_s, 5 * 0.5, 1e-6);
  EXPECT_NEAR(report.unasked.without_progress_s, 0, 1e-6);
  EXPECT_NEAR(*report.usual_step_s, kStepSeconds, 1e-9);
  EXPECT_NEAR(*report.usual_tokens_per_s, 200, 1e-6);
}

TEST(ChaosReport, ThroughputKeptIsRelativeToAnUndisturbedJob) {
  const DrillReport report = judge(one_kill());
  // Of 20 s, 2 were without progress and 5 at half the rate.
  EXPECT_NEAR(*report.throughput_kept, (20 - 2 - 2.5) / 20, 1e-6);
  EXPECT_EQ(report.steps, 31);
}

TEST(ChaosReport, TimeWithoutProgressBelongsToTheLastFaultBeforeTheNextStepBegins) {
  Drill drill = one_kill();
  drill.faults = {{1021, FaultKind::kFreeze, "w1", 6}, {1024, FaultKind::kKill, "w2", 0}, {1035, FaultKind::kCut, "w3", 6}};
  const DrillReport report = judge(drill);
  EXPECT_NEAR(report.costs[0].without_progress_s, 0, 1e-6);
  EXPECT_NEAR(report.costs[1].without_progress_s, 2, 1e-6);
  EXPECT_NEAR(report.costs[2].without_progress_s, 0, 1e-6);
}

// The service was away from 1023 to 1027 and then heard of eight steps at once. The workers had not stopped.
TEST(ChaosReport, StepsThatWereReportedTogetherAreNoTimeWithoutProgress) {
  Drill drill = one_kill();
  drill.faults[0].kind = FaultKind::kServiceKill;
  drill.commits = {{1000, 1, kStepSeconds, kTokens}};
  train(drill.commits, 1040);
  for (Commit& commit : drill.commits) {
    if (commit.at_s > 1023 && commit.at_s < 1027) commit.at_s = 1027;
  }
  const DrillReport report = judge(drill);
  EXPECT_NEAR(report.costs[0].without_progress_s, 0, 1e-6);
  EXPECT_NEAR(*report.throughput_kept, 1, 1e-6);
}

TEST(ChaosReport, RepeatedStepsKeepTheirTimes) {
  const std::vector<Commit> commits = settle_commit_times({{10, 1, 1, 1}, {11, 2, 1, 1}, {20, 2, 1, 1}, {21, 3, 1, 1}});
  EXPECT_EQ(commits[1].at_s, 11);
  EXPECT_EQ(commits[2].at_s, 20);
}

TEST(ChaosReport, AReferenceJobSaysWhatIsUsual) {
  Drill drill = one_kill();
  drill.reference = {{500, 1, 0.25, kTokens}};
  train(drill.reference, 520, 0.25);
  const DrillReport report = judge(drill);
  EXPECT_NEAR(*report.usual_tokens_per_s, 400, 1e-6);
  EXPECT_NEAR(*report.throughput_kept, (20 - 2 - 2.5) / 40, 1e-6);
}

TEST(ChaosReport, SaysThatThereAreTooFewStepsToCompareWith) {
  Drill drill = one_kill();
  std::erase_if(drill.commits, [&](const Commit& commit) { return commit.at_s < drill.begin_s; });
  const DrillReport report = judge(drill);
  EXPECT_FALSE(report.throughput_kept);
  EXPECT_THAT(report_text(drill, report), HasSubstr("throughput kept  not known: too few undisturbed steps were seen"));
}

TEST(ChaosReport, ComparesHashesOnlyWhereBothAreOfTheSameStep) {
  Drill drill = one_kill();
  EXPECT_FALSE(judge(drill).same_hash);
  drill.hash = "aa";
  drill.expected_hash = "aa";
  EXPECT_EQ(judge(drill).same_hash, true);
  drill.expected_hash = "bb";
  EXPECT_EQ(judge(drill).same_hash, false);
  EXPECT_THAT(report_text(drill, judge(drill)), HasSubstr("state hash       DIFFERENT: aa, expected bb"));
  drill.hash_problem = "j1 is running";
  EXPECT_FALSE(judge(drill).same_hash);
  EXPECT_THAT(report_text(drill, judge(drill)), HasSubstr("state hash       not compared: j1 is running"));
}

TEST(ChaosReport, ReadsAsATable) {
  Drill drill = one_kill();
  drill.skipped = {{{12, FaultKind::kCut, "", 0, 6}, "no worker of this node consents"}};
  const std::string text = report_text(drill, judge(drill));
  EXPECT_THAT(text, HasSubstr("j1: 1 fault in 20s, seed 7\n"));
  EXPECT_THAT(text, HasSubstr("3.0 s  kill   w2  -     2.00 s            +2.50 s"));
  EXPECT_THAT(text, HasSubstr("left out: cut at 12.0 s: no worker of this node consents\n"));
  EXPECT_THAT(text, HasSubstr("throughput kept  77.5 % (31 steps, 3,100 tokens)\nsteps lost       0\n"));
}

TEST(ChaosReport, SaysTheSameAsJson) {
  const Drill drill = one_kill();
  const auto json = report_json(drill, judge(drill));
  EXPECT_EQ(json["faults"][0]["fault"], "kill");
  EXPECT_EQ(json["faults"][0]["worker"], "w2");
  EXPECT_EQ(json["steps_lost"], 0);
  EXPECT_TRUE(json["same_hash"].is_null());
  EXPECT_NEAR(json["throughput_kept"].get<double>(), 0.775, 1e-6);
}

}  // namespace
}  // namespace holdfast::ops
