// The queue's effects on one job: preemption, retries, an end by max_runtime.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/rendezvous/membership/story.h"

namespace holdfast::rendezvous {
namespace {

using testing::HasSubstr;

TEST(Preemption, StopsAfterTheStepWritesACheckpointAndFreesEverybody) {
  Story story = running({"w1", "w2"}, 20);
  story.happens(PreemptAsked{"j7", 5});
  EXPECT_EQ(story.told_to("w1"), "yield 1 with checkpoint");
  story.checkpoint(21);
  story.stopped({"w1", "w2"}, 21);
  EXPECT_EQ(story.told_of("FREE"), (Lines{"FREE w1", "FREE w2"}));
  EXPECT_EQ(story.job.state, JobState::kWaiting);
  EXPECT_EQ(story.job.intent, Intent::kRun) << "it comes back by itself";
  EXPECT_EQ(story.job.reason, "preempted by j7 (priority 5)");
  EXPECT_EQ(story.job.preemptions, 1);
  story.ready({"w3"});
  EXPECT_EQ(story.told_of("FORM"), Lines{"FORM 2 w3 checkpoint 21"});
  EXPECT_EQ(story.job.committed_step, 21);
  EXPECT_EQ(story.job.restarts, 0);
  EXPECT_EQ(story.job.preempted_by, "");
}

TEST(Preemption, SaysThePreemptorWhileItGetsReadyAgain) {
  Story story = running({"w1", "w2"}, 20, 2);
  story.happens(PreemptAsked{"j7", 5});
  story.checkpoint(20);
  story.stopped({"w1", "w2"}, 20);
  story.assigned("w1");
  EXPECT_EQ(story.job.reason,
            "preempted by j7 (priority 5): waiting for 2 more workers: 2 needed, 0 ready, w1 is getting ready");
}

TEST(Preemption, WithoutItsCheckpointIsCalledOffAndNotAskedAgainAtOnce) {
  Story story = running({"w1"}, 20);
  story.happens(PreemptAsked{"j7", 5});
  story.told();
  story.stopped({"w1"}, 21);
  const Lines told = story.told();
  EXPECT_THAT(told, testing::Contains(HasSubstr("preemption_failed: the job keeps its workers: the checkpoint of step 21")));
  EXPECT_THAT(told, testing::Contains("FORM 2 w1 memory 21"));
  EXPECT_FALSE(is_preemptible(story.job, story.now));
  story.all_active(21);
  EXPECT_EQ(story.told_to("w1"), "join 2");
  EXPECT_TRUE(is_preemptible(story.job, story.now + 5 * 60'000));
}

TEST(Preemption, AFaultInBetweenLosesNothing) {
  Story story = running({"w1", "w2"}, 20);
  story.happens(PreemptAsked{"j7", 5});
  story.happens(WorkerGone{"w2", "killed"});
  story.stopped({"w1"}, 21);
  EXPECT_EQ(story.told_of("FORM"), Lines{"FORM 2 w1 memory 21"}) << "once more, to write down what memory alone holds";
  story.all_active(21);
  EXPECT_EQ(story.told_to("w1"), "yield 2 with checkpoint");
  story.checkpoint(22);
  story.stopped({"w1"}, 22);
  EXPECT_EQ(story.told_of("FREE"), Lines{"FREE w1"});
  EXPECT_EQ(story.job.reason, "preempted by j7 (priority 5)");
}

TEST(Preemption, OfAJobWithTooFewLeftForAGenerationIsCalledOff) {
  Story story = running({"w1", "w2"}, 20, 2);
  story.happens(PreemptAsked{"j7", 5});
  story.happens(WorkerGone{"w2", "killed"});
  story.stopped({"w1"}, 21);
  EXPECT_EQ(story.told_of("FREE"), Lines{});
  EXPECT_EQ(story.job.intent, Intent::kRun);
  EXPECT_EQ(story.job.state, JobState::kWaiting);
  EXPECT_FALSE(is_preemptible(story.job, story.now + 10 * 60'000)) << "its newest steps are in memory alone";
}

TEST(Preemption, WhoseCheckpointTakesTooLongIsCalledOffAndTheJobTrainsOn) {
  Story story = running({"w1", "w2"}, 20);
  story.job.spec.recovery = "checkpoint";
  story.happens(PreemptAsked{"j7", 5});
  story.stopped({"w2"}, 21);  // w1 is rank 0, and the store is full
  story.passes(149'000);
  EXPECT_EQ(story.job.intent, Intent::kPreempt);
  EXPECT_EQ(story.told_to("w1"), "yield 1 with checkpoint");
  story.told();
  story.passes(1000);
  EXPECT_EQ(story.job.intent, Intent::kRun);
  EXPECT_THAT(story.told(), testing::Contains(HasSubstr("preemption_failed: the job keeps its workers: w1 did not stop")));
  story.stopped({"w1"}, 21);
  EXPECT_EQ(story.told_of("FORM"), Lines{"FORM 2 w1 and w2 memory 21"}) << "no fault, so memory counts";
  EXPECT_EQ(story.job.restarts, 0);
  story.all_active(21);
  EXPECT_EQ(story.told_to("w1"), "join 2");
  EXPECT_FALSE(is_preemptible(story.job, story.now + 4 * 60'000));
  EXPECT_TRUE(is_preemptible(story.job, story.now + 5 * 60'000));
}

TEST(Preemption, ThePauseAfterOneThatFailedDoubles) {
  Story story = running({"w1"}, 20);
  story.happens(PreemptAsked{"j7", 5});
  story.stopped({"w1"}, 21);
  story.all_active(21);
  story.now += 5 * 60'000;
  story.happens(PreemptAsked{"j7", 5});
  story.stopped({"w1"}, 22);
  EXPECT_EQ(story.job.intent, Intent::kRun);
  EXPECT_FALSE(is_preemptible(story.job, story.now + 9 * 60'000));
  EXPECT_TRUE(is_preemptible(story.job, story.now + 10 * 60'000));
}

TEST(Preemption, WhatASilentWorkerMayStillHoldIsNotGivenUp) {
  Story story = running({"w1"}, 20);
  story.happens(PreemptAsked{"j7", 5});
  story.happens(WorkerGone{"w1", "nothing was heard of it for 4 s"});
  EXPECT_EQ(story.job.intent, Intent::kRun);
  EXPECT_EQ(story.job.preemptions, 0);
  EXPECT_FALSE(is_set_aside(story.job));
  EXPECT_FALSE(is_preemptible(story.job, story.now + 10 * 60'000));
  story.told();
  story.happens(WorkerAssigned{{"w1", "w1-1", "w1:1"}, "avx512", 0});
  story.stopped({"w1"}, 23);
  EXPECT_EQ(story.told_of("FORM"), Lines{"FORM 2 w1 memory 23"});
}

TEST(Preemption, EndsWhenNoGenerationBecomesActive) {
  Story story = running({"w1", "w2"}, 20);
  story.happens(WorkerGone{"w2", "killed"});
  story.stopped({"w1"}, 21);
  EXPECT_EQ(story.told_of("FORM"), Lines{"FORM 2 w1 memory 21"});
  story.happens(PreemptAsked{"j7", 5});  // and w1 never takes part in generation 2
  story.passes(299'000);
  EXPECT_EQ(story.job.intent, Intent::kPreempt);
  story.passes(1000);
  EXPECT_EQ(story.job.intent, Intent::kRun);
  EXPECT_EQ(story.told_of("preemption_failed").size(), 1u);
  EXPECT_FALSE(is_preemptible(story.job, story.now));
}

TEST(Preemption, IsWithdrawnOnlyBeforeTheYield) {
  Story yields = running({"w1"}, 20);
  yields.happens(PreemptAsked{"j7", 5});
  yields.happens(PreemptWithdrawn{});
  EXPECT_EQ(yields.job.intent, Intent::kPreempt);
  Story forms(1);
  forms.ready({"w1"});
  forms.happens(PreemptAsked{"j7", 5});  // w1 has not joined yet
  EXPECT_EQ(forms.job.intent, Intent::kPreempt);
  forms.happens(PreemptWithdrawn{});
  EXPECT_EQ(forms.job.intent, Intent::kRun);
  forms.all_active(0);
  EXPECT_EQ(forms.told_to("w1"), "join 1");
  EXPECT_TRUE(is_preemptible(forms.job, forms.now)) << "it is no failure";
}

TEST(Preemption, OneThatHasNotBegunGivesUpItsWorkersAtOnce) {
  Story story(2);
  story.ready({"w1"});
  EXPECT_TRUE(is_preemptible(story.job, story.now));
  story.happens(PreemptAsked{"j7", 5});
  EXPECT_EQ(story.told_of("FREE"), Lines{"FREE w1"});
  EXPECT_EQ(story.job.state, JobState::kQueued);
}

TEST(Preemption, APauseWinsOverItAndWhatIsRepeatedLaterIsNoFault) {
  Story story = running({"w1"}, 20);
  story.happens(PreemptAsked{"j7", 5});
  story.happens(PauseAsked{});
  story.checkpoint(21);
  story.stopped({"w1"}, 21);
  EXPECT_EQ(story.job.state, JobState::kPaused);
  EXPECT_EQ(story.job.preempted_by, "");

  Story other = running({"w1"}, 20);
  other.happens(PreemptAsked{"j7", 5});
  other.checkpoint(21);
  other.stopped({"w1"}, 21);
  EXPECT_TRUE(is_dormant(other.job));
  EXPECT_EQ(stale(other.job, "w1", "w1-1", 1, true), std::nullopt) << "the answer to its last report was lost";
  other.told();
  other.progress(21);
  EXPECT_EQ(other.told(), Lines{});
}

Story with_retries(int64_t retries, const std::string& reduction = "exact") {
  Story story = running({"w1", "w2"}, 20);
  story.job.spec.retries = retries;
  story.job.spec.retry_delay = 30;
  story.job.spec.reduction = reduction;
  story.checkpoint(20);
  story.progress(24);
  story.told();
  return story;
}

// Both are back, and train from where they are told.
void comes_back(Story& story, int64_t step) {
  for (const char* worker : {"w1", "w2"}) {
    story.assigned(worker);
    story.says(worker, Phase::kPreparing);
  }
  for (const char* worker : {"w1", "w2"}) story.says(worker, Phase::kPrepared);
  story.all_active(step);
}

TEST(Retries, AFailedJobBeginsAgainFromItsNewestCheckpointAfterADelayThatDoubles) {
  Story story = with_retries(2);
  story.progress(25, "10 steps in a row were refused");
  Lines told = story.told();
  EXPECT_THAT(told, testing::Contains("RETRY in 30000 ms"));
  EXPECT_THAT(told,
              testing::Contains("job_retries: failed after step 25: 10 steps in a row were refused; retry 1 of 2 begins in "
                                "30 s, from the checkpoint of step 20"));
  EXPECT_EQ(story.job.state, JobState::kQueued);
  EXPECT_THAT(story.job.reason, HasSubstr("retry 1 of 2 (it failed after step 25: 10 steps in a row were refused)"));
  EXPECT_TRUE(story.job.participants.empty());
  comes_back(story, 20);
  told = story.told();
  EXPECT_THAT(told, testing::Contains("FORM 2 w1 and w2 checkpoint 20"));
  EXPECT_THAT(told, testing::Contains("VOID from 21 by 2"));
  story.progress(23, "another failure");
  EXPECT_THAT(story.told(), testing::Contains("RETRY in 60000 ms"));
  comes_back(story, 20);
  story.progress(30, "a third failure");
  EXPECT_EQ(story.job.state, JobState::kFailed);
  EXPECT_EQ(
      story.job.reason,
      "a third failure; after 2 retries; its last good checkpoint is that of step 20: resume with --resume_from job:j1@20");
}

TEST(Retries, WhatAWorkerStillHoldsOfTheFailedRunDoesNotCount) {
  Story story = with_retries(1);
  story.progress(25, "10 steps in a row were refused");
  story.told();
  for (const char* worker : {"w1", "w2"}) story.assigned(worker);
  for (const char* worker : {"w1", "w2"}) {
    WorkerStatus status = story.status(worker, Phase::kPrepared, 1, 25);
    story.happens(WorkerReported{worker, status});
  }
  EXPECT_EQ(story.told_of("FORM"), Lines{"FORM 2 w1 and w2 checkpoint 20"});
}

TEST(Retries, AnExactJobThatFailsInTheSameWayAtTheSameStepIsNotTriedAgain) {
  Story story = with_retries(5);
  story.progress(25, "10 steps in a row were refused");
  comes_back(story, 20);
  story.progress(25, "10 steps in a row were refused");
  EXPECT_EQ(story.job.state, JobState::kFailed);
  EXPECT_THAT(story.job.reason, HasSubstr("at the same step it failed in the same way before"));

  Story inexact = with_retries(5, "float");
  inexact.progress(25, "10 steps in a row were refused");
  comes_back(inexact, 20);
  inexact.progress(25, "10 steps in a row were refused");
  EXPECT_EQ(inexact.job.state, JobState::kQueued) << "other bits may come out";
}

TEST(Retries, AStopOrAPauseWins) {
  Story stopped = with_retries(5);
  stopped.happens(StopAsked{});
  stopped.progress(25, "a failure");
  EXPECT_EQ(stopped.job.state, JobState::kFailed);
  Story paused = with_retries(5);
  paused.happens(PauseAsked{});
  paused.progress(25, "a failure");
  EXPECT_EQ(paused.job.state, JobState::kPaused);
  paused.happens(ResumeAsked{});
  EXPECT_EQ(paused.job.state, JobState::kQueued);
}

TEST(MaxRuntime, EndsTheJobWithACheckpointAndTheReason) {
  Story story = running({"w1"}, 20);
  story.happens(StopAsked{"max_runtime of 3600 s is over"});
  EXPECT_EQ(story.told_to("w1"), "yield 1 with checkpoint");
  story.checkpoint(21);
  story.stopped({"w1"}, 21);
  EXPECT_EQ(story.job.state, JobState::kFailed);
  EXPECT_EQ(
      story.job.reason,
      "max_runtime of 3600 s is over: stopped at step 21, which is kept as a checkpoint; go on with --resume_from job:j1@21");
}

}  // namespace
}  // namespace holdfast::rendezvous
