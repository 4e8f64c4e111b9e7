// Stories of workers that are lost, freeze, or tell of others; and of where the next generation takes its state from.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/rendezvous/membership/story.h"

namespace holdfast::rendezvous {
namespace {

TEST(Faults, ALostWorkerIsLeftBehindAndTheSurvivorsGoOnFromTheirMemory) {
  Story story = running({"w1", "w2", "w3"}, 41);
  story.happens(WorkerGone{"w3", "killed by signal 9"});
  EXPECT_EQ(story.told_to("w1"), "fence 1");
  story.stopped({"w1", "w2"}, 41, "connection reset");
  EXPECT_EQ(story.told(),
            (Lines{"fault_reported: generation 1 is over: w3 was lost (killed by signal 9)", "FORM 2 w1 and w2 memory 41",
                   "generation_formed: generation 2 forms of w1 and w2, from the memory of w1 and w2 at step 41, nothing is "
                   "lost: w3 was "
                   "lost (killed by signal 9)"}));
  EXPECT_EQ(story.told_to("w2"), "join 2");
  EXPECT_EQ(story.job.restarts, 1);
}

TEST(Faults, TheTimeWithoutProgressIsToldWhenItEnds) {
  Story story = running({"w1", "w2"}, 41);
  story.passes(200);
  story.happens(WorkerGone{"w2", "killed"});
  story.stopped({"w1"}, 41);
  story.all_active(41);
  story.passes(1000);
  story.progress(42);
  EXPECT_EQ(story.told_of("progress"),
            Lines{"progress_resumed: generation 2 goes on at step 42, after 1.2 s without progress (0.2 s until the fault was "
                  "known, 0.0 s until the generation formed, 1.0 s until its step was done): w2 was lost (killed)"});
}

TEST(Faults, TheFurthestMemoryIsTakenAndItsStepCountsAsCommitted) {
  Story story = running({"w1", "w2", "w3"}, 41);
  story.happens(WorkerGone{"w1", "killed"});
  story.stopped({"w2"}, 41);
  story.stopped({"w3"}, 42);  // it had the whole gradient and applied it; rank 0 did not live to say so
  EXPECT_EQ(story.told_of("COMMIT"), Lines{"COMMIT 42-42 in 1"});
  EXPECT_EQ(story.job.current.source.step, 42);
  EXPECT_EQ(story.job.committed_step, 42);
}

TEST(Faults, ASuspectThatIsSilentIsLeftOutSoonAndOneThatSpeaksIsWaitedFor) {
  for (const bool speaks : {false, true}) {
    Story story = running({"w1", "w2", "w3"}, 10);
    story.passes(100);
    story.happens(FaultReported{story.fault("w1", 2)});
    story.stopped({"w1", "w2"}, 10);
    story.now += 50;
    if (speaks) story.says("w3", Phase::kActive, 1, 10);
    story.passes(400);
    EXPECT_EQ(story.job.current.number, 1) << "the suspect has half a second";
    story.passes(100);
    if (!speaks) {
      EXPECT_EQ(story.told_of("OUTLIVE"), Lines{"OUTLIVE w3 w3-1"}) << "should it wake, it comes back as a new one";
      EXPECT_FALSE(story.job.participants.contains("w3"));
      EXPECT_EQ(story.job.current.number, 2);
      EXPECT_EQ(story.job.current.members.size(), 2u);
      continue;
    }
    EXPECT_EQ(story.job.current.number, 1) << "it lives: it is waited for like the others";
    story.stopped({"w3"}, 10);
    EXPECT_EQ(story.told_of("FORM"), Lines{"FORM 2 w1, w2 and w3 memory 10"});
  }
}

TEST(Faults, AMemberThatDoesNotStopIsLeftOutAfterTenSecondsAndComesBackInOrder) {
  Story story = running({"w1", "w2"}, 10);
  story.happens(FaultReported{story.fault("w1", -1, "timeout")});
  story.stopped({"w1"}, 10);
  story.passes(9900);
  EXPECT_EQ(story.job.current.number, 1);
  story.passes(200);
  EXPECT_EQ(story.job.current.number, 2);
  story.says("w2", Phase::kActive, 1, 10);
  EXPECT_EQ(story.told_to("w2"), "fence 2") << "it believes to be in generation 1";
  story.says("w2", Phase::kPrepared, 2, 10, "fenced");
  story.all_active(10);
  EXPECT_EQ(story.told_to("w1"), "yield 2");
  story.stopped({"w1"}, 12);
  EXPECT_EQ(story.job.current.members.size(), 2u);
  EXPECT_EQ(story.job.restarts, 1) << "the join is no fault";
}

TEST(Faults, OneCauseIsToldOnceHoweverManyWaysItComes) {
  Story story = running({"w1", "w2"}, 10);
  const FaultReport report = story.fault("w1", 1);
  story.says("w1", Phase::kPrepared, 1, 10, report.detail);  // the status overtakes the report
  story.happens(FaultReported{report});
  story.happens(WorkerGone{"w2", "killed"});
  const Lines lines = story.told();
  EXPECT_THAT(lines, testing::Contains("fault_reported: generation 1 is over: w1 stopped: reset by peer"));
  EXPECT_THAT(lines, testing::Contains("fault_reported: more on the end of generation 1: w1 (rank 0) lost its "
                                       "connection to w2 (rank 1)"));
  EXPECT_THAT(lines, testing::Contains("generation_formed: generation 2 forms of w1, from the memory of w1 at step 10, nothing "
                                       "is lost: w2 was lost (killed)"))
      << "what w1 saw of it was evidence of that";
}

TEST(Faults, ReportsOfThePastChangeNothing) {
  Story story = running({"w1", "w2"}, 10);
  const FaultReport old = story.fault("w1", 1);
  story.happens(WorkerGone{"w2", "killed"});
  story.stopped({"w1"}, 10);
  story.told();
  story.happens(FaultReported{old});
  EXPECT_EQ(story.told(), Lines{});
  EXPECT_EQ(story.job.stage, Stage::kRunning);
  EXPECT_EQ(stale(story.job, "w1", "w1-1", 1, false)->code, "stale_generation");
  EXPECT_EQ(stale(story.job, "w2", "w2-1", 2, false)->code, "stale_incarnation");
  EXPECT_EQ(stale(story.job, "w1", "w1-1", 2, true), std::nullopt);
}

TEST(Faults, TooFewSurvivorsWaitWithTheirStateAndGoOnWhenOneComes) {
  Story story = running({"w1", "w2"}, 41, 2);
  story.happens(WorkerGone{"w2", "its node lost power"});
  story.stopped({"w1"}, 41);
  EXPECT_EQ(story.job.state, JobState::kWaiting);
  EXPECT_EQ(story.told_of("job_waiting"),
            Lines{"job_waiting: waiting for 1 more worker: 2 needed, 1 ready (w2 was lost (its node lost "
                  "power)); the state of step 41 is kept in memory"});
  story.ready({"w3"});
  EXPECT_EQ(story.told_of("FORM"), Lines{"FORM 2 w1 and w3 memory 41"});
  EXPECT_EQ(story.job.state, JobState::kRunning);
}

TEST(Faults, WhenAllAreLostTheNewestCheckpointIsTakenAndTheStepsAboveItAreVoid) {
  Story story = running({"w1", "w2"}, 60);
  story.checkpoint(60);
  story.progress(75);
  story.happens(WorkerGone{"w1", "killed"});
  story.happens(WorkerGone{"w2", "killed"});
  story.told();
  story.assigned("w1", "avx512", 2);
  story.says("w1", Phase::kPrepared);
  EXPECT_EQ(
      story.told(),
      (Lines{"VOID from 61 by 2",
             "steps_voided: steps 61 to 75 are computed again: no worker that answered holds a newer "
             "state than step 60",
             "FORM 2 w1 checkpoint 60",
             "generation_formed: generation 2 forms of w1, from the checkpoint of step 60, steps 61 to 75 are computed again: "
             "w1 was lost (killed); w2 was lost (killed)",
             "worker_joined: w1 takes part from generation 2 on"}));
  EXPECT_EQ(story.job.committed_step, 60);
}

TEST(Faults, MemoryOfStepsThatWereVoidedNeverComesBack) {
  Story story = running({"w1", "w2"}, 60);
  story.checkpoint(60);
  story.progress(75);
  story.happens(FaultReported{story.fault("w1", 1)});
  story.happens(WorkerGone{"w1", "killed"});
  story.passes(10100);  // w2 does not answer
  story.assigned("w3");
  story.says("w3", Phase::kPrepared);
  ASSERT_EQ(story.job.current.source.kind, StateSource::Kind::kCheckpoint);
  story.all_active(60);
  story.says("w2", Phase::kPrepared, 2, 75, "fenced");  // with a state of the history that was given up
  story.stopped({"w3"}, 62);
  EXPECT_EQ(story.job.current.number, 3);
  EXPECT_EQ(story.job.current.source.step, 62);
}

TEST(Faults, RecoveryFromCheckpointsForsakesMemoryAfterAFaultButNotInOrderlyChanges) {
  Story story = running({"w1", "w2"}, 60);
  story.job.spec.recovery = "checkpoint";
  story.checkpoint(60);
  story.progress(65);
  story.ready({"w3"});
  story.stopped({"w1", "w2"}, 66);
  EXPECT_EQ(story.told_of("FORM"), Lines{"FORM 2 w1, w2 and w3 memory 66"});
  story.all_active(66);
  story.progress(70);
  story.happens(WorkerGone{"w3", "killed"});
  story.stopped({"w1", "w2"}, 70);
  EXPECT_EQ(story.told_of("FORM"), Lines{"FORM 3 w1 and w2 checkpoint 60"});
}

TEST(Faults, TheFirstOwnStepOfAJobThatGoesOnFromAnotherIsAccountedFor) {
  Story story;
  story.happens(SourceGiven{{StateSource::Kind::kCheckpoint, 60, "j0", "", ""}});
  story.ready({"w1", "w2"});
  EXPECT_EQ(story.told_of("FORM"), Lines{"FORM 1 w1 and w2 checkpoint 60"});
  story.all_active(60);
  story.says("w2", Phase::kActive, 1, 61);
  story.happens(WorkerGone{"w1", "killed"});  // before it could say so
  story.stopped({"w2"}, 61);
  EXPECT_EQ(story.job.committed_step, 61);
  EXPECT_THAT(story.told(), testing::Contains("COMMIT 61-61 in 1"));
}

TEST(Faults, OneThatAnswersAndNeverStopsIsLeftOutAndGivesUpItsPlaceAfterAMinute) {
  Story story = running({"w1", "w2", "w3"}, 10);
  story.happens(WorkerGone{"w1", "killed"});
  story.stopped({"w2"}, 10);
  for (int i = 0; i < 11; ++i) {
    story.passes(1000);
    story.says("w3", Phase::kActive, 1, 10);  // a read that hangs, say
  }
  EXPECT_EQ(story.told_of("FORM"), Lines{"FORM 2 w2 memory 10"});
  story.all_active(10);
  for (int i = 0; i < 55; ++i) {
    story.passes(1000);
    story.says("w3", Phase::kActive, 1, 10);
  }
  EXPECT_EQ(story.told_of("FREE"), Lines{}) << "it may come back";
  story.passes(6000);
  EXPECT_EQ(story.told_of("FREE"), Lines{"FREE w3"});
}

TEST(Faults, AJobThatWaitsForWorkersDoesNotKeepThePlaceOfOneThatNeverStops) {
  Story story = running({"w1", "w2", "w3"}, 10, 3);
  story.happens(WorkerGone{"w1", "killed"});
  story.stopped({"w2"}, 10);
  for (int i = 0; i < 75; ++i) {
    story.passes(1000);
    story.says("w3", Phase::kActive, 1, 10);
  }
  EXPECT_EQ(story.told_of("FREE"), Lines{"FREE w3"}) << "so that the job gets another one";
  EXPECT_EQ(story.job.participants.count("w2"), 1u);
}

TEST(Faults, ALeaverStaysForThePartsOfADividedStateThatItMayAloneHave) {
  Story story = running({"w1", "w2", "w3"}, 41);
  story.job.spec.shard = "optimizer";
  story.job.max_nodes = 3;
  story.leaves("w3", 41);  // all are asked to stop after a step
  story.happens(WorkerGone{"w1", "killed"});
  story.assigned("w4");
  story.assigned("w5");
  story.says("w4", Phase::kPrepared);
  story.says("w5", Phase::kPrepared);
  story.stopped({"w2", "w3"}, 41, "connection reset");
  EXPECT_EQ(story.told_of("FORM"), Lines{"FORM 2 w2, w3 and w4 memory 41"});
  story.all_active(41);
  EXPECT_EQ(story.told_to("w3"), "yield 2") << "now that somebody is there to take them";
  story.stopped({"w2", "w3", "w4"}, 42);
  EXPECT_EQ(story.told_of("FORM"), Lines{"FORM 3 w2, w4 and w5 memory 42"});
}

TEST(Faults, TheNewestStateIsNotCutOffByTheMaximum) {
  Story story = running({"w1", "w2", "w3"}, 41);
  story.job.max_nodes = 2;
  story.happens(FaultReported{story.fault("w1", -1, "timeout")});
  story.stopped({"w1", "w2"}, 41);
  story.stopped({"w3"}, 42);
  EXPECT_EQ(story.told_of("FORM"), Lines{"FORM 2 w1 and w3 memory 42"});
}

TEST(Faults, ACheckpointOfStepsThatWereVoidedIsNotTaken) {
  Story story = running({"w1", "w2"}, 60);
  story.checkpoint(60);
  story.progress(75);
  story.happens(FaultReported{story.fault("w1", 1, "state_mismatch")});
  story.stopped({"w1", "w2"}, 75);
  ASSERT_EQ(story.told_of("FORM"), Lines{"FORM 2 w1 and w2 checkpoint 60"});
  story.all_active(60);
  story.progress(62);
  story.told();
  story.checkpoint(70, 1);  // written while generation 1 trained, said by a member of generation 2
  EXPECT_EQ(story.told(), Lines{});
  EXPECT_FALSE(story.job.checkpoints.contains(70));
  EXPECT_EQ(story.job.committed_step, 62);
  EXPECT_EQ(stale_state(story.job, story.record(70, 1))->code, "stale_state");
  EXPECT_EQ(stale_state(story.job, story.record(60, 1)), std::nullopt) << "what the job went back to is of its history";
  EXPECT_EQ(stale_state(story.job, story.record(62, 2)), std::nullopt);
  story.happens(WorkerGone{"w2", "killed"});
  story.stopped({"w1"}, 62);
  EXPECT_EQ(stale_state(story.job, story.record(62, 2)), std::nullopt) << "nothing was lost in between";
}

TEST(Faults, StatesThatDifferAreNotTrusted) {
  Story story = running({"w1", "w2"}, 60);
  story.checkpoint(60);
  story.progress(61);
  story.happens(FaultReported{story.fault("w1", 1, "state_mismatch")});
  story.stopped({"w1", "w2"}, 61);
  EXPECT_EQ(story.told_of("FORM"), Lines{"FORM 2 w1 and w2 checkpoint 60"});
}

TEST(Faults, GenerationsWithoutProgressComeSlowerAndSlower) {
  Story story = running({"w1"}, 1);
  std::vector<Millis> waits;
  for (int i = 0; i < 6; ++i) {
    story.all_active(1);
    story.happens(FaultReported{story.fault("w1", -1)});
    story.stopped({"w1"}, 1);
    const Millis from = story.now;
    while (story.job.stage == Stage::kForming) story.passes(100);
    waits.push_back(story.now - from);
  }
  EXPECT_EQ(waits, (std::vector<Millis>{0, 0, 0, 0, 1000, 2000}));
}

TEST(Faults, StepsThatTheJobWentBackBehindDoNotComeBackWithAWorkerThatWasLeftOut) {
  for (const int64_t state_generation : {1, 2}) {
    Story story = running({"w1", "w2"}, 10);
    story.happens(FaultReported{story.fault("w1", -1)});
    story.stopped({"w1"}, 10);
    for (int second = 0; second < 11; ++second) {
      story.says("w2", Phase::kActive, 1, 37);  // it goes on, and nobody else has heard of these steps
      story.passes(1000);
    }
    EXPECT_EQ(story.told_of("FORM"), Lines{"FORM 2 w1 memory 10"});
    story.happens(WorkerGone{"w1", "killed"});
    WorkerStatus back = story.status("w2", Phase::kPrepared, 2, 37);
    back.state_generation = state_generation;
    story.happens(WorkerReported{"w2", back});
    // (No worker can hold a state of generation 2 that was not in it: the second case is here to see the rule at work.)
    EXPECT_EQ(story.told_of("FORM"), Lines{state_generation == 1 ? "FORM 3 w2 initial 0" : "FORM 3 w2 memory 37"});
  }
}

TEST(Faults, ALateMessageDoesNotBringBackAStateThatWasDropped) {
  Story story = running({"w1"}, 10);
  story.checkpoint(10);
  story.happens(PauseAsked{});
  story.stopped({"w1"}, 10);
  ASSERT_EQ(story.job.state, JobState::kPaused);
  story.happens(ResumeAsked{});
  story.happens(
      WorkerAssigned{.member = {"w1", "w1-1", "w1:1"}, .numerics = "avx512", .after_generation = 1, .holds_nothing = true});
  story.told();
  story.says("w1", Phase::kPrepared, 1, 10);  // as it was before it was freed: the message was on the way for long
  EXPECT_THAT(story.told(), testing::Contains("FORM 2 w1 checkpoint 10"));
}

TEST(Faults, WhoeverJoinsIsToldFromWhichStepsTheNewestGenerationsBegan) {
  Story story(1);
  story.assigned("w1");
  story.says("w1", Phase::kPrepared);
  EXPECT_THAT(directive_for(story.job, "w1").began, ::testing::ElementsAre(GenerationBegin{1, 0}));
  for (int64_t generation = 2; generation <= 40; ++generation) story.job.began_at[generation] = 10 * generation;
  const auto began = directive_for(story.job, "w1").began;
  ASSERT_EQ(began.size(), kBeganMax);
  EXPECT_EQ(began.front(), (GenerationBegin{9, 90}));
  EXPECT_EQ(began.back(), (GenerationBegin{40, 400}));
}

}  // namespace
}  // namespace holdfast::rendezvous
