// A database restored from an older copy: generations never go back, states are kept, nothing is made up.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/rendezvous/membership/story.h"

namespace holdfast::rendezvous {
namespace {

using testing::_;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

// j1 trained in generation 1 on w1 and w2 up to step 10 when the copy was made; then much happened.
Story from_an_old_copy() {
  Story story;
  story.ready({"w1", "w2"});
  story.all_active(0);
  story.progress(10);
  for (auto& [worker, p] : story.job.participants) p.status = WorkerStatus{};
  story.told();
  return story;
}

void speaks(Story& story, const std::string& worker, Phase phase, int64_t generation, int64_t step, int64_t state_generation) {
  WorkerStatus status = story.status(worker, phase, generation, step);
  status.state_generation = state_generation;
  if (generation > story.job.current.number) story.happens(NewerSeen{worker, status});
  story.happens(WorkerReported{worker, status});
}

TEST(RestoredDatabase, TheNextGenerationIsAboveAllThatAnybodySpeaksOf) {
  Story story = from_an_old_copy();
  speaks(story, "w1", Phase::kActive, 5, 52, 5);
  EXPECT_THAT(story.told(),
              ElementsAre("OUTRUN 5", StartsWith("database_older: the database knows generation 1 at step 10, and w1 "
                                                 "speaks of generation 5 at step 52")));
  EXPECT_EQ(story.told_to("w1"), "fence 5");
  speaks(story, "w2", Phase::kActive, 5, 52, 5);
  EXPECT_EQ(story.told_to("w2"), "fence 5");
  story.stopped({"w1", "w2"}, 52);
  EXPECT_THAT(story.told(), testing::IsEmpty()) << "others may be about to speak";
  story.passes(3000);
  EXPECT_THAT(story.told(), ElementsAre(StartsWith("records_missing: steps 11 to 52 were done"), "FORM 6 w1 and w2 memory 52",
                                        HasSubstr("generation 6 forms of w1 and w2"), _, _));
  EXPECT_EQ(story.job.committed_step, 52);
}

TEST(RestoredDatabase, OnlyStatesOfTheNewestGenerationCount) {
  Story story = from_an_old_copy();
  // w2 was frozen long ago with a state that the job gave up; w3 came after the copy was made.
  speaks(story, "w2", Phase::kPrepared, 3, 80, 3);
  story.assigned("w3");
  speaks(story, "w3", Phase::kActive, 5, 52, 5);
  story.stopped({"w3"}, 52);
  story.told();
  story.passes(3000);
  EXPECT_THAT(story.told(), Contains("FORM 6 w2 and w3 memory 52"));
}

TEST(RestoredDatabase, WithoutAnyStateTheNewestKnownCheckpointIsTaken) {
  Story story = from_an_old_copy();
  story.checkpoint(8);
  story.told();
  speaks(story, "w1", Phase::kPrepared, 5, -1, 0);
  story.passes(3000);
  EXPECT_THAT(story.told(), Contains("FORM 6 w1 checkpoint 8"));
}

TEST(RestoredDatabase, WithoutAKnownCheckpointAFaultDoesNotSendBackToTheBeginning) {
  Story story = from_an_old_copy();
  story.job.spec.recovery = "checkpoint";
  for (const char* worker : {"w1", "w2"}) speaks(story, worker, Phase::kActive, 5, 52, 5);
  story.stopped({"w1", "w2"}, 52);
  story.passes(3000);
  story.all_active(52);
  story.told();
  story.happens(FaultReported{story.fault("w1", 6, "timeout")});
  story.stopped({"w1", "w2"}, 53);
  story.passes(3000);
  EXPECT_THAT(story.told(), Contains("FORM 7 w1 and w2 memory 53"));
}

TEST(RestoredDatabase, AnActiveWorkerIsWaitedForLikeAMember) {
  Story story = from_an_old_copy();
  speaks(story, "w1", Phase::kActive, 5, 52, 5);
  speaks(story, "w2", Phase::kActive, 5, 53, 5);
  story.stopped({"w1"}, 52);
  story.passes(3000);
  EXPECT_EQ(story.job.current.number, 5) << "w2 may hold the newest state";
  story.stopped({"w2"}, 53);
  EXPECT_THAT(story.told(), Contains("FORM 6 w1 and w2 memory 53"));
}

TEST(RestoredDatabase, APausedJobStaysPausedAndStillNeverUsesANumberTwice) {
  Story story = from_an_old_copy();
  story.checkpoint(10);
  story.happens(PauseAsked{});
  story.stopped({"w1", "w2"}, 10);
  ASSERT_EQ(story.job.state, JobState::kPaused);
  WorkerStatus status = story.status("w1", Phase::kActive, 7, 90);
  story.told();
  story.happens(NewerSeen{"w1", status});
  EXPECT_THAT(story.told(), ElementsAre("OUTRUN 7", HasSubstr("the job stays paused")));
  story.happens(ResumeAsked{});
  story.ready({"w9"});
  story.passes(3000);
  EXPECT_THAT(story.told(), Contains("FORM 8 w9 checkpoint 10"));
}

TEST(RestoredDatabase, StepsOfTheSameGenerationThatItLostAreNamedAndNotMadeUp) {
  Story story = from_an_old_copy();
  story.all_active(40);
  Progress progress;
  progress.worker = "w1";
  progress.incarnation = "w1-1";
  progress.generation = 1;
  progress.step = 41;
  for (const int64_t step : {40, 41}) progress.points.emplace_back().step = step;
  story.told();
  story.happens(ProgressMade{progress});
  EXPECT_THAT(story.told(), ElementsAre(StartsWith("records_missing: steps 11 to 39 were done"), "COMMIT 40-41 in 1"));
}

TEST(RestoredDatabase, AnEndThatItLostIsSaidAgainByTheNextGeneration) {
  Story story = from_an_old_copy();
  story.all_active(1000);
  story.told();
  story.stopped({"w2"}, 1000);
  EXPECT_EQ(story.job.stage, Stage::kRunning) << "rank 0 may still be about to say it";
  story.stopped({"w1"}, 1000);
  EXPECT_THAT(story.told(), Contains("FORM 2 w1 and w2 memory 1000"));
}

}  // namespace
}  // namespace holdfast::rendezvous
