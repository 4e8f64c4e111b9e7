// Members whose state differs from that of the others, and jobs that cannot go on.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/rendezvous/membership/story.h"

namespace holdfast::rendezvous {
namespace {

// All members say that w2 is the odd one; it has dropped what it held.
void diverges(Story& story, int64_t step) {
  for (const char* worker : {"w1", "w2", "w3"}) story.happens(FaultReported{story.fault(worker, 1, "state_diverged")});
  story.stopped({"w1", "w3"}, step);
  story.stopped({"w2"}, -1);
}

TEST(Divergence, TheOddOneOutTakesTheStateOfTheOthersAndNoStepIsLost) {
  Story story = running({"w1", "w2", "w3"}, 60);
  story.told();
  diverges(story, 60);
  const auto told = story.told();
  EXPECT_EQ(std::ranges::count_if(
                told, [](const auto& line) { return line.starts_with("state_diverged: the state of w2 (rank 1)"); }),
            1)
      << "said by three, told once";
  EXPECT_NE(std::ranges::find(told, "FORM 2 w1, w2 and w3 memory 60"), told.end());
  EXPECT_EQ(story.job.committed_step, 60);
}

TEST(Divergence, WhoGoesWrongAgainAndAgainIsRefused) {
  Story story = running({"w1", "w2", "w3"}, 60);
  for (int64_t step = 61; step <= 62; ++step) {
    diverges(story, step - 1);
    story.all_active(step - 1);
    story.progress(step);
  }
  story.told();
  diverges(story, 62);
  EXPECT_EQ(story.told_of("REFUSE"), Lines{"REFUSE w2"});
  EXPECT_EQ(story.job.current.members.size(), 2U);
}

// The word of w3 is older than the finding that some part of this state is with nobody.
TEST(Divergence, AStateOfWhichAPartIsLostIsNotAskedForAgain) {
  Story story = running({"w1", "w2", "w3"}, 60);
  story.checkpoint(50);
  story.told();
  story.happens(FaultReported{story.fault("w1", 1, "state_lost")});
  story.stopped({"w1", "w2"}, -1);
  story.stopped({"w3"}, 60);
  const auto told = story.told();
  EXPECT_NE(std::ranges::find(told, "FORM 2 w1, w2 and w3 checkpoint 50"), told.end());
}

TEST(Failure, SaysWhichCheckpointIsTheLastGoodOne) {
  Story story = running({"w1", "w2", "w3"}, 60);
  story.checkpoint(50);
  story.progress(61, "the loss was not finite in 10 steps in a row");
  EXPECT_EQ(story.job.state, JobState::kFailed);
  EXPECT_EQ(story.job.reason,
            "the loss was not finite in 10 steps in a row; its last good checkpoint is that of step 50: resume with "
            "--resume_from job:j1@50");
  Story without = running({"w1", "w2", "w3"}, 60);
  without.progress(61, "the loss was not finite");
  EXPECT_EQ(without.job.reason, "the loss was not finite; there is no checkpoint to resume from");
}

}  // namespace
}  // namespace holdfast::rendezvous
