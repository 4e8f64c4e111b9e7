// Stories of orderly changes: the first generation, joins, leaves, pause, stop, the end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/rendezvous/membership/story.h"

namespace holdfast::rendezvous {
namespace {

TEST(Orderly, TheFirstGenerationFormsWhenAllThatAreThereArePrepared) {
  Story story(1);
  for (const char* worker : {"w10", "w2"}) story.assigned(worker);
  EXPECT_EQ(story.told_to("w2"), "prepare 0");
  story.says("w10", Phase::kPrepared);
  EXPECT_EQ(story.told(), Lines{}) << "w2 is still getting ready";
  story.says("w2", Phase::kPrepared);
  EXPECT_EQ(story.told(),
            (Lines{"FORM 1 w2 and w10 initial 0", "generation_formed: generation 1 forms of w2 and w10, from the beginning"}));
  EXPECT_EQ(story.told_to("w10"), "join 1");
  EXPECT_EQ(directive_for(story.job, "w10").rank, 1);
}

TEST(Orderly, AWorkerThatIsSlowToPrepareIsNotWaitedForLongerThanTenSeconds) {
  Story story(1);
  for (const char* worker : {"w1", "w2"}) story.assigned(worker);
  story.says("w1", Phase::kPrepared);
  story.passes(9900);
  EXPECT_EQ(story.job.current.number, 0);
  story.passes(200);
  EXPECT_EQ(story.told_of("FORM"), Lines{"FORM 1 w1 initial 0"});
}

TEST(Orderly, TooFewDoNotBegin) {
  Story story(3);
  story.ready({"w1", "w2"});
  story.passes(60000);
  EXPECT_EQ(story.told(), Lines{});
  EXPECT_EQ(story.job.state, JobState::kQueued);
  EXPECT_EQ(story.job.reason, "waiting for 1 more worker: 3 needed, 2 ready");
}

TEST(Orderly, ARefusalByTheWorkerItselfIsPassedOn) {
  Story story;
  story.assigned("w1");
  story.says("w1", Phase::kRefused, 0, -1, "cannot open train.bin");
  EXPECT_EQ(story.told(), (Lines{"worker_refused: w1 cannot take part: cannot open train.bin", "REFUSE w1", "FREE w1"}));
}

TEST(Orderly, SeveralJoinersMakeOneGenerationAndNothingIsLost) {
  Story story = running({"w1", "w2"}, 20);
  for (const char* worker : {"w3", "w4"}) {
    story.assigned(worker);
    story.says(worker, Phase::kPreparing);
  }
  story.says("w3", Phase::kPrepared);
  EXPECT_EQ(story.told_to("w1"), "join 1") << "w4 is about to be ready";
  story.says("w4", Phase::kPrepared);
  EXPECT_EQ(story.told_to("w1"), "yield 1");
  EXPECT_EQ(story.told_of("generation_yields"),
            Lines{"generation_yields: generation 1 stops after the step under way: w3 and w4 join"});
  story.progress(21);
  story.stopped({"w1", "w2"}, 21);
  EXPECT_EQ(story.told_of("FORM"), Lines{"FORM 2 w1, w2, w3 and w4 memory 21"});
  EXPECT_EQ(story.job.restarts, 0);
}

TEST(Orderly, ThereIsNoYieldBeforeAllHaveJoined) {
  Story story(1);
  story.ready({"w1", "w2"});
  story.says("w1", Phase::kActive, 1, 0);
  story.ready({"w3"});
  story.passes(5000);
  EXPECT_EQ(story.told_to("w1"), "join 1");
  story.says("w2", Phase::kActive, 1, 0);
  EXPECT_EQ(story.told_to("w1"), "yield 1");
}

TEST(Orderly, MoreThanTheMaximumDoNotJoin) {
  Story story(1, 2);
  story.ready({"w1", "w2"});
  story.all_active(0);
  story.ready({"w3"});
  story.passes(5000);
  EXPECT_EQ(story.told_to("w1"), "join 1");
}

TEST(Orderly, AWorkerThatIsToldToEndHandsOverAndLeaves) {
  Story story = running({"w1", "w2", "w3"}, 20);
  story.leaves("w1", 20);
  EXPECT_EQ(story.told_to("w2"), "yield 1");
  story.stopped({"w2", "w3", "w1"}, 21);
  EXPECT_EQ(
      story.told(),
      (Lines{"generation_yields: generation 1 stops after the step under way: w1 leaves (told to end)", "COMMIT 21-21 in 1",
             "FORM 2 w2 and w3 memory 21",
             "generation_formed: generation 2 forms of w2 and w3, from the memory of w2 and w3 at step 21, nothing is lost: w1 "
             "leaves (told to end)",
             "FREE w1"}));
  EXPECT_EQ(story.job.restarts, 0);
}

TEST(Orderly, AJoinerThatIsToldToEndGoesAtOnce) {
  Story story = running({"w1"}, 20);
  story.assigned("w2");
  WorkerStatus leaving = story.status("w2", Phase::kPreparing, 0, -1);
  leaving.leaving = true;
  story.happens(WorkerReported{"w2", leaving});
  EXPECT_EQ(story.told(), Lines{"FREE w2"});
}

TEST(Orderly, ARingThatStopsByItselfForALeaverIsNoFault) {
  Story story = running({"w1", "w2"}, 20);
  story.says("w2", Phase::kPrepared, 1, 21);  // it heard of the leaver in the exchange, before the service did
  EXPECT_EQ(story.told_to("w1"), "yield 1");
  WorkerStatus leaving = story.status("w1", Phase::kPrepared, 1, 21);
  leaving.leaving = true;
  story.happens(WorkerReported{"w1", leaving});
  EXPECT_EQ(story.job.restarts, 0);
  EXPECT_EQ(story.job.current.members.size(), 1u);
}

TEST(Orderly, TheLastToLeaveWritesACheckpoint) {
  Story story = running({"w1"}, 20);
  story.leaves("w1", 20);
  EXPECT_EQ(story.told_to("w1"), "yield 1 with checkpoint");
  story.checkpoint(21);
  story.stopped({"w1"}, 21);
  EXPECT_EQ(story.told_of("FREE"), Lines{"FREE w1"});
  EXPECT_EQ(story.job.state, JobState::kWaiting);
  story.ready({"w2"});
  EXPECT_EQ(story.told_of("FORM"), Lines{"FORM 2 w2 checkpoint 21"});
  EXPECT_EQ(story.job.committed_step, 21);
}

TEST(Orderly, APauseIsPatientWithACheckpointAsItsJobsCheckpointsTakeTime) {
  const auto waits_for = [](double last_write_s) {
    Story story = running({"w1", "w2"}, 20);
    if (last_write_s > 0) story.checkpoint(20, 0, last_write_s);
    story.happens(PauseAsked{});
    EXPECT_EQ(story.told_to("w1"), "yield 1 with checkpoint");
    story.stopped({"w2"}, 21);
    const Millis asked = story.now;
    while (story.told_to("w1") == "yield 1 with checkpoint" && story.now < asked + 7'200'000) story.passes(10'000);
    return (story.now - asked) / 1000;
  };
  EXPECT_EQ(waits_for(0), 630) << "nothing is known";
  EXPECT_EQ(waits_for(2), 150);
  EXPECT_EQ(waits_for(300), 930);
  EXPECT_EQ(waits_for(10'000), 3630) << "at most an hour";
}

TEST(Orderly, ALeaverWhoseCheckpointCannotBeWrittenIsNotHeldBackForEver) {
  Story story = running({"w1"}, 20);
  story.leaves("w1", 20);
  story.stopped({"w1"}, 21);
  EXPECT_EQ(story.told_of("FREE"), Lines{"FREE w1"});
}

TEST(Orderly, ALeaverWhoseCheckpointCannotBeWrittenHandsOverToWhoStays) {
  Story story = running({"w1"}, 60);
  story.leaves("w1", 60);
  EXPECT_EQ(story.told_to("w1"), "yield 1 with checkpoint");
  story.assigned("w2");
  story.says("w2", Phase::kPrepared);
  story.stopped({"w1"}, 61);
  EXPECT_EQ(story.told_of("FORM"), Lines{"FORM 2 w1 and w2 memory 61"}) << "w2 copies the only state there is";
  story.all_active(61);
  EXPECT_EQ(story.told_to("w1"), "yield 2");
  story.stopped({"w1", "w2"}, 62);
  const Lines lines = story.told();
  EXPECT_EQ(lines.back(), "FREE w1");
  EXPECT_EQ(story.job.current.members.size(), 1u);
  EXPECT_EQ(story.job.committed_step, 62);
}

TEST(Orderly, WithoutRoomForBothTheNextBeginsFromWhatItsMembersHave) {
  Story story(1, 1);
  story.ready({"w1"});
  story.all_active(0);
  story.progress(60);
  story.assigned("w2");
  story.says("w2", Phase::kPrepared);
  story.leaves("w1", 60);
  story.told();
  story.stopped({"w1"}, 61);
  EXPECT_EQ(story.told_of("FORM"), Lines{"FORM 2 w2 initial 0"}) << "never from a memory that no member holds";
}

TEST(Orderly, PauseWritesACheckpointAndResumeGoesOnFromIt) {
  Story story = running({"w1", "w2"}, 20);
  story.happens(PauseAsked{});
  EXPECT_EQ(story.told_to("w2"), "yield 1 with checkpoint");
  story.checkpoint(21);
  story.stopped({"w1", "w2"}, 21);
  EXPECT_EQ(story.job.state, JobState::kPaused);
  EXPECT_EQ(story.job.committed_step, 21) << "whether or not rank 0 has reported it yet";
  EXPECT_EQ(story.job.reason, "paused at step 21");
  EXPECT_EQ(story.told_of("FREE"), (Lines{"FREE w1", "FREE w2"}));
  story.happens(ResumeAsked{});
  EXPECT_EQ(story.job.state, JobState::kQueued);
  story.assigned("w1");
  EXPECT_EQ(story.told_to("w1"), "prepare 1") << "it was a member of generation 1, and has given everything up since";
  story.says("w1", Phase::kPrepared);
  EXPECT_EQ(story.told_of("FORM"), Lines{"FORM 2 w1 checkpoint 21"});
}

TEST(Orderly, APauseWhoseCheckpointFailsIsCalledOff) {
  Story story = running({"w1", "w2"}, 20);
  story.happens(PauseAsked{});
  story.stopped({"w1", "w2"}, 21);
  EXPECT_EQ(story.job.state, JobState::kRunning);
  EXPECT_EQ(story.told_of("pause_failed").size(), 1u);
  EXPECT_EQ(story.job.committed_step, 21);
}

TEST(Orderly, AFaultDuringAPauseLosesNothing) {
  Story story = running({"w1", "w2"}, 20);
  story.happens(PauseAsked{});
  story.happens(WorkerGone{"w2", "killed"});
  story.stopped({"w1"}, 21);
  EXPECT_EQ(story.told_of("FORM"), Lines{"FORM 2 w1 memory 21"}) << "the state has yet to be written down";
  story.all_active(21);
  EXPECT_EQ(story.told_to("w1"), "yield 2 with checkpoint");
  story.checkpoint(22);
  story.stopped({"w1"}, 22);
  EXPECT_EQ(story.job.state, JobState::kPaused);
}

TEST(Orderly, AQueuedJobPausesAndStopsAtOnce) {
  Story paused, stopped;
  paused.happens(PauseAsked{});
  EXPECT_EQ(paused.job.state, JobState::kPaused);
  paused.happens(StopAsked{});
  EXPECT_EQ(paused.job.state, JobState::kCancelled);
  stopped.happens(StopAsked{});
  EXPECT_EQ(stopped.told(), Lines{"job_cancelled: stopped at step 0; there is no checkpoint"});
}

TEST(Orderly, StopWritesACheckpointAndFreesAll) {
  Story story = running({"w1", "w2"}, 20);
  story.happens(StopAsked{});
  EXPECT_EQ(story.told_to("w1"), "yield 1 with checkpoint");
  story.progress(21);
  story.checkpoint(21);
  story.stopped({"w1", "w2"}, 21);
  EXPECT_EQ(story.job.reason, "stopped at step 21, which is kept as a checkpoint");
  EXPECT_EQ(story.told_of("FREE"), (Lines{"FREE w1", "FREE w2"}));
}

TEST(Orderly, AStopThatWantsNoCheckpointWritesNone) {
  Story story = running({"w1", "w2"}, 20);
  story.happens(StopAsked{.checkpoint = false});
  EXPECT_EQ(story.told_to("w1"), "yield 1");
  story.progress(21);
  story.stopped({"w1", "w2"}, 21);
  EXPECT_EQ(story.job.state, JobState::kCancelled);
  EXPECT_EQ(story.job.reason, "stopped at step 21; there is no checkpoint");
}

TEST(Orderly, AStopIsNotHeldUpByAFault) {
  Story story = running({"w1", "w2"}, 20);
  story.happens(StopAsked{});
  story.happens(WorkerGone{"w1", "killed"});
  EXPECT_EQ(story.job.state, JobState::kCancelled);
}

TEST(Orderly, AYieldThatDoesNotEndBecomesAFence) {
  Story story = running({"w1", "w2"}, 20);
  story.ready({"w3"});
  story.passes(29000);
  EXPECT_EQ(story.told_to("w1"), "yield 1");
  story.passes(2000);
  EXPECT_EQ(story.told_to("w1"), "fence 1");
  EXPECT_EQ(story.job.restarts, 1);
}

TEST(Orderly, TheSameReportTwiceIsNoEvent) {
  Story story = running({"w1", "w2"}, 20);
  story.progress(20);
  story.checkpoint(20);
  story.told();
  story.checkpoint(20);
  story.all_active(20);
  story.says("w2", Phase::kActive, 1, 20);
  EXPECT_EQ(story.told(), Lines{});
}

TEST(Orderly, WorkersThatReachTheEndWaitForRank0ToSaySo) {
  Story story = running({"w1", "w2"}, 999);
  story.says("w2", Phase::kPrepared, 1, 1000);
  EXPECT_EQ(story.told_to("w2"), "join 1");
  story.progress(1000, "", true);
  EXPECT_EQ(story.job.state, JobState::kSucceeded);
  EXPECT_EQ(story.told(), (Lines{"COMMIT 1000-1000 in 1", "job_succeeded: all 1000 steps are done", "FREE w1", "FREE w2"}));
}

TEST(Orderly, EpochsAreStepsOnceTheWorkersHaveToldTheLengthOfTheData) {
  Story story;
  story.job.spec.total_steps = 0;
  story.job.spec.epochs = 2;
  story.job.spec.block_size = 100;
  EXPECT_EQ(story.job.total_steps(), 0);
  story.ready({"w1", "w2"});
  EXPECT_EQ(story.job.total_steps(), 63) << "2 x 1,000 sequences by 32";
  EXPECT_FALSE(is_done_at(story.job, 62));
  story.all_active(0);
  story.progress(63);
  story.told();
  story.says("w2", Phase::kPrepared, 1, 63);
  EXPECT_EQ(story.told(), Lines{}) << "done: it waits for rank 0 to say so";
}

TEST(Orderly, AnOlderDatabaseLearnsTheLengthOfTheDataFromTheNextReport) {
  Story story = running({"w1", "w2"}, 20);
  story.job.data_tokens = 0;
  story.says("w2", Phase::kPrepared, 1, 20);
  EXPECT_EQ(story.job.data_tokens, 100'001);
}

TEST(Orderly, AFailureEndsTheJobWithItsReason) {
  Story story = running({"w1", "w2"}, 20);
  story.progress(20, "the loss is not finite");
  EXPECT_EQ(story.job.state, JobState::kFailed);
  EXPECT_EQ(story.job.reason, "the loss is not finite; there is no checkpoint to resume from");
}

}  // namespace
}  // namespace holdfast::rendezvous
