// Members from whom nothing comes are asked; those who are gone are not waited for.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/rendezvous/membership/story.h"

namespace holdfast::rendezvous {
namespace {

Story three_at(int64_t step) {
  Story story = running({"w1", "w2", "w3"}, step);
  story.passes(50);
  return story;
}

FaultReport silent(Story& story, const std::string& worker, int suspect) {
  FaultReport report = story.fault(worker, suspect, "silent");
  report.detail = "no bytes moved for 500 ms: nothing comes from rank 1";
  return report;
}

TEST(Silence, IsAQuestionAndWhoAnswersItGoesOn) {
  Story story = three_at(40);
  const std::string before = directive_for(story.job, "w2").tag();
  story.happens(FaultReported{silent(story, "w3", 1)});
  EXPECT_NE(directive_for(story.job, "w2").tag(), before) << "the long poll returns with the question";
  EXPECT_EQ(story.told_to("w2"), "join 1");
  story.passes(20);
  story.says("w2", Phase::kActive, 1, 40);
  story.passes(5000);
  EXPECT_EQ(story.told(), Lines{}) << "nothing happened";
  EXPECT_EQ(story.job.stage, Stage::kRunning);
}

TEST(Silence, OfOneThatDoesNotAnswerEndsTheGenerationAndItsPartInTheJob) {
  Story story = three_at(40);
  story.happens(FaultReported{silent(story, "w3", 1)});
  story.passes(499);
  EXPECT_EQ(story.told(), Lines{});
  story.passes(1);
  EXPECT_EQ(
      story.told_of("fault_reported"),
      Lines{"fault_reported: generation 1 is over: w2 (rank 1) is frozen or cut off: it answers neither its neighbour nor "
            "the service: w3 (rank 2) says: no bytes moved for 500 ms: nothing comes from rank 1"});
  story.stopped({"w1", "w3"}, 40);
  const auto told = story.told();
  EXPECT_NE(std::ranges::find(told, "OUTLIVE w2 w2-1"), told.end());
  EXPECT_NE(std::ranges::find(told, "FORM 2 w1 and w3 memory 40"), told.end());
}

TEST(Silence, AnAnswerInTheSameMillisecondIsAnAnswer) {
  Story story = three_at(40);
  story.happens(FaultReported{silent(story, "w3", 1)});
  story.says("w2", Phase::kActive, 1, 40);
  story.passes(5000);
  EXPECT_EQ(story.told(), Lines{});
}

TEST(Silence, IsNotJudgedBeforeEveryMessageThatCameWasRead) {
  Story story = three_at(40);
  story.happens(FaultReported{silent(story, "w3", 1)});
  story.now += 3000;  // the service stood still in a commit; w3's status is read first, w2's answer waits behind it
  story.says("w3", Phase::kActive, 1, 40);
  story.says("w2", Phase::kActive, 1, 40);
  story.passes(50);
  EXPECT_EQ(story.told(), Lines{});
}

TEST(Silence, DoesNotCountWhileTheServiceItselfStoodStill) {
  Story story = three_at(40);
  story.happens(FaultReported{silent(story, "w3", 1)});
  story.now += 3000;
  story.happens(Tick{.judges = true, .listening_since_ms = story.now});
  story.now += 499;
  story.happens(Tick{.judges = true, .listening_since_ms = story.now - 499});
  EXPECT_EQ(story.told(), Lines{});
}

TEST(Silence, OfOneWhoHasNotSpokenSinceTheServiceStartedIsWaitedForLonger) {
  Story story = three_at(40);
  story.job.participants.at("w2").unheard = true;
  story.happens(FaultReported{silent(story, "w3", 1)});
  story.passes(2999);
  EXPECT_EQ(story.told(), Lines{});
  story.passes(1);
  EXPECT_EQ(story.told_of("fault_reported").size(), 1U);
}

TEST(Silence, IsAskedAboutOnceAtATimeAndAgainLater) {
  Story story = three_at(40);
  for (int i = 0; i < 3; ++i) story.happens(FaultReported{silent(story, i == 0 ? "w1" : "w3", 1)});
  EXPECT_EQ(directive_for(story.job, "w2").question, 1);
  story.passes(1);
  story.says("w2", Phase::kActive, 1, 40);
  story.passes(1);
  story.happens(FaultReported{silent(story, "w3", 1)});
  EXPECT_EQ(directive_for(story.job, "w2").question, 2);
}

TEST(Silence, SaidOfAnOlderGenerationOrByOneselfIsNothing) {
  Story story = three_at(40);
  story.happens(FaultReported{silent(story, "w2", 1)});
  FaultReport old = silent(story, "w3", 1);
  old.generation = 0;
  story.happens(FaultReported{old});
  EXPECT_EQ(directive_for(story.job, "w2").question, 0);
}

TEST(Gone, WhoseAddressRefusesConnectionsIsNotWaitedFor) {
  Story story = three_at(40);
  FaultReport report = story.fault("w1", 1);
  report.suspect_gone = true;
  story.happens(FaultReported{report});
  story.stopped({"w1", "w3"}, 40);
  story.passes(50);
  const auto told = story.told();
  EXPECT_NE(std::ranges::find(told, "FORM 2 w1 and w3 memory 40"), told.end());
  EXPECT_NE(std::ranges::find(told,
                              "worker_left_out: w2 is left out of the next generation: w1 lost its connection to it, whose "
                              "address refuses connections now, and it has not been heard of since"),
            told.end());
}

TEST(Gone, IsBelievedOfOneWhoWasOnlySuspectedBefore) {
  Story story = three_at(40);
  story.happens(FaultReported{story.fault("w1", 1)});
  story.stopped({"w1", "w3"}, 40);
  EXPECT_EQ(story.told_of("FORM"), Lines{});
  FaultReport report = story.fault("w3", 1);
  report.suspect_gone = true;
  story.happens(FaultReported{report});
  story.passes(50);
  EXPECT_EQ(story.told_of("FORM"), Lines{"FORM 2 w1 and w3 memory 40"});
}

TEST(Gone, IsToldOfEveryWorkerOfANodeAndOnceOfEach) {
  Story story = three_at(40);
  FaultReport lost = story.fault("w1", 1), beside = story.fault("w1", 2, "gone");
  lost.suspect_gone = beside.suspect_gone = true;
  story.happens(FaultReported{lost});
  story.happens(FaultReported{beside});
  story.stopped({"w1"}, 40);
  EXPECT_EQ(story.told_of("fault_reported").size(), 2U);
  story.happens(FaultReported{beside});
  EXPECT_EQ(story.told_of("fault_reported"), Lines{});
  story.passes(50);
  EXPECT_EQ(story.told_of("FORM"), Lines{"FORM 2 w1 memory 40"});
}

}  // namespace
}  // namespace holdfast::rendezvous
