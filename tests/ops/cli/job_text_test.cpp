// A job's progress on one line and on two, at any width.
#include "ops/cli/jobs/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/cli/terminal/text_width.h"

namespace holdfast::ops {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Json a_running_job() {
  return {{"id", "j1"},          {"state", "running"},
          {"reason", ""},        {"step", 640},
          {"total_steps", 2000}, {"loss", 3.41234},
          {"world_size", 2},     {"tokens_per_second", 10240.4},
          {"eta_s", 134.2},      {"latest_checkpoint", {{"step", 600}, {"age_s", 14.2}}}};
}

TEST(ProgressLines, AreABarAndFigures) {
  EXPECT_EQ(progress_lines(a_running_job(), 100, false),
            (std::vector<std::string>{"███████░░░░░░░░░░░░░░░░░   32%  step 640/2000  ETA 2m 14s",
                                      "loss 3.4123  10,240 tokens/s  2 workers  checkpoint 600 (14s ago)"}));
}

TEST(ProgressLines, LeaveOutTheLeastImportantFiguresOnANarrowTerminal) {
  EXPECT_EQ(progress_lines(a_running_job(), 50, false),
            (std::vector<std::string>{"█████░░░░░░░░░░░░   32%  step 640/2000  ETA 2m 14s",
                                      "loss 3.4123  2 workers  checkpoint 600 (14s ago)"}));
  EXPECT_EQ(progress_lines(a_running_job(), 24, false), (std::vector<std::string>{" 32%  step 640/2000", "loss 3.4123"}));
}

TEST(ProgressLines, FitAnyWidth) {
  Json waiting = a_running_job();
  waiting.update({{"state", "waiting"}, {"reason", "1 of 2 workers are here; 训练 needs two"}});
  for (const Json& job : {a_running_job(), waiting}) {
    for (size_t width = 1; width < 120; ++width) {
      for (const std::string& line : progress_lines(job, width, false)) EXPECT_LE(columns(line), width) << line;
    }
  }
}

TEST(ProgressLines, SayWhyAJobDoesNotRun) {
  Json job = a_running_job();
  job.update({{"state", "waiting"}, {"reason", "1 of 2 workers\033[2J"}});
  const auto lines = progress_lines(job, 100, false);
  EXPECT_THAT(lines.at(0), HasSubstr("waiting  ███"));
  EXPECT_EQ(lines.at(1), "1 of 2 workers^[[2J");
  EXPECT_THAT(lines.at(0), Not(HasSubstr("ETA")));
}

TEST(ProgressLines, OfABeginningAndOfAnEnd) {
  Json job = a_running_job();
  job.update({{"step", 0}, {"loss", nullptr}, {"eta_s", nullptr}, {"latest_checkpoint", nullptr}});
  EXPECT_EQ(progress_lines(job, 80, false), (std::vector<std::string>{"░░░░░░░░░░░░░░░░░░░░░░░░    0%  step 0/2000  ETA -",
                                                                      "loss -  10,240 tokens/s  2 workers"}));
  job["step"] = 2000;
  EXPECT_THAT(progress_lines(job, 80, false).at(0), HasSubstr("████████████████████████  100%"));
}

TEST(ProgressLine, IsOneLineForLogs) {
  EXPECT_EQ(progress_line(a_running_job()),
            "step 640/2000 (32%)  loss 3.4123  10,240 tokens/s  ETA 2m 14s  2 workers  checkpoint 600 (14s ago)");
}

}  // namespace
}  // namespace holdfast::ops
