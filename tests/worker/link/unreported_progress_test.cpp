// Reports of a job's progress: their steps and sizes, and what an answer confirms.
#include "worker/link/unreported_progress.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace holdfast::worker {
namespace {

rendezvous::StepPoint unsaid_point(int64_t step) {
  rendezvous::StepPoint p;
  p.step = step;
  return p;
}

// A report of these steps of j1, in its generation 1, whose answer is still to come.
rendezvous::Progress on_the_way(UnreportedProgress& progress, int64_t steps) {
  progress.begin("j1", 1, true);
  for (int64_t step = 1; step <= steps; ++step) progress.committed(unsaid_point(step));
  return progress.next_report();
}

TEST(UnreportedProgressTest, RepeatsTheEndOfAJobAndNothingElse) {
  UnreportedProgress progress(10);
  progress.begin("j1", 2, true);
  progress.committed(unsaid_point(1));
  progress.note_sent("j1", progress.next_report());
  EXPECT_FALSE(progress.has_news() || progress.may_repeat_end());
  progress.fail(1, "no loss was finite");
  ASSERT_TRUE(progress.has_news());
  progress.note_sent("j1", progress.next_report());
  EXPECT_FALSE(progress.has_news());
  ASSERT_TRUE(progress.may_repeat_end());
  EXPECT_EQ(progress.next_report().failure, "no loss was finite");
  progress.end();
  EXPECT_FALSE(progress.may_repeat_end());
}

TEST(UnreportedProgressTest, ALateAnswerOnAnotherJobConfirmsNothing) {
  UnreportedProgress progress(10);
  const auto sent = on_the_way(progress, 5);
  progress.forget();
  progress.begin("j2", 1, true);
  progress.note_sent("j1", sent);
  progress.committed(unsaid_point(1));
  EXPECT_EQ(progress.next_report().points.size(), 1U);
}

TEST(UnreportedProgressTest, StepsThatGenerationsComputedWithoutThisWorkerAreNotItsToTell) {
  using Steps = std::vector<int64_t>;
  UnreportedProgress progress(10);
  progress.begin("j1", 3, true);
  for (int64_t step = 1; step <= 5; ++step) progress.committed(unsaid_point(step));
  const auto valid = [&](const std::vector<rendezvous::GenerationBegin>& began) {
    Steps steps;
    const StepHistory history = progress.valid_history(began);
    for (const auto& one : history.points()) steps.push_back(one.step);
    return steps;
  };
  EXPECT_EQ(valid({{2, 0}, {3, 0}, {4, 5}}), (Steps{1, 2, 3, 4, 5})) << "it was in generation 3, and 4 goes on from its state";
  EXPECT_EQ(valid({{2, 0}, {3, 0}, {4, 2}, {5, 4}}), (Steps{1, 2})) << "3 and 4 were computed anew, in generation 4";
  EXPECT_EQ(valid({{5, 4}, {6, 5}}), Steps{}) << "generation 4 may have begun anywhere";
  EXPECT_EQ(valid({}), (Steps{1, 2, 3, 4, 5})) << "an older service does not say";
}

TEST(UnreportedProgressTest, AReportWhoseStepsHaveManySharesIsStillTakenByTheService) {
  for (const int ranks : {1, 8, 256}) {
    UnreportedProgress progress(500);
    progress.begin("j1", 2, true);
    for (int64_t step = 100'000'001; step <= 100'001'000; ++step) {
      auto p = unsaid_point(step);
      p.loss = p.gradient_norm = p.learning_rate = p.step_s = p.communication_s = 0.12345678901234567;
      p.validation_loss = 0.12345678901234567;
      p.tokens = 1'000'000'000;
      p.tokens_digest = "0123456789abcdef";
      for (int rank = 0; rank < ranks; ++rank) p.shares.push_back({rank, 100'000, 100'000});
      progress.committed(std::move(p));
    }
    int reports = 0;
    for (; progress.has_news() && reports <= 1000; ++reports) {
      const auto report = progress.next_report();
      ASSERT_LE(report.points.size(), 500U);
      ASSERT_LT(nlohmann::json(report).dump().size(), size_t{1} << 20) << ranks;
      progress.note_sent("j1", report);
    }
    EXPECT_LE(reports, ranks <= 8 ? 2 : 100) << ranks;
    EXPECT_EQ(progress.history().acknowledged(), 100'001'000);
  }
}

TEST(UnreportedProgressTest, ALateAnswerDoesNotConfirmStepsThatWereVoidedMeanwhile) {
  UnreportedProgress progress(10);
  const auto sent = on_the_way(progress, 10);
  progress.end();
  progress.replace_history(StepHistory(), 5);
  progress.note_sent("j1", sent);
  progress.begin("j1", 2, true);
  progress.committed(unsaid_point(6));
  EXPECT_EQ(progress.next_report().points.size(), 1U);
}

}  // namespace
}  // namespace holdfast::worker
