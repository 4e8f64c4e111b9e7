// Stories of checkpoints that a worker cannot read: who tries next, and when one is given up.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/rendezvous/membership/story.h"

namespace holdfast::rendezvous {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;

void cannot_read(Story& story, const std::string& worker, int64_t step = 60) {
  FaultReport report = story.fault(worker, -1, "checkpoint_unreadable");
  report.incarnation = story.job.participants.at(worker).member.incarnation;
  report.checkpoint_step = step;
  report.detail = "shard 0 does not have its checksum";
  story.happens(FaultReported{report});
}

// All died after checkpoints of steps 40 and 60, and are to go on from the newer one.
Story returned(const std::vector<std::string>& workers, const std::string& shard = "none", int64_t min_nodes = 1) {
  Story story = running(workers, 60, min_nodes);
  story.job.spec.shard = shard;
  story.checkpoint(40);
  story.checkpoint(60);
  for (const auto& worker : workers) story.happens(WorkerGone{worker, "killed"});
  for (const auto& worker : workers) story.assigned(worker, "avx512", 2);
  for (const auto& worker : workers) story.says(worker, Phase::kPreparing);
  for (const auto& worker : workers) story.says(worker, Phase::kPrepared);
  return story;
}

TEST(Unreadable, AnotherWorkerTriesAndTheJobGoesOnFromTheSameCheckpoint) {
  Story story = returned({"w1", "w2", "w3"});
  EXPECT_EQ(story.told_of("FORM"), Lines{"FORM 2 w1, w2 and w3 checkpoint 60"});
  cannot_read(story, "w1");
  story.stopped({"w1", "w2", "w3"}, -1, "cannot read");
  EXPECT_THAT(story.told(),
              AllOf(Contains(HasSubstr("checkpoint_doubted: w1 cannot read the checkpoint of step 60 (shard 0 does "
                                       "not have its checksum); another worker tries")),
                    Contains("FORM 3 w2, w3 and w1 checkpoint 60")));
  story.all_active(60);
  story.progress(61);
  EXPECT_FALSE(story.job.doubt) << "it was read";
  EXPECT_FALSE(story.job.checkpoints.at(60).unreadable);
}

TEST(Unreadable, TheWordOfASecondWorkerGivesACheckpointUp) {
  Story story = returned({"w1", "w2"});
  cannot_read(story, "w1");
  cannot_read(story, "w1");  // said again: its answer was lost
  EXPECT_EQ(story.told_of("UNREADABLE"), Lines{});
  story.stopped({"w1", "w2"}, -1, "cannot read");
  cannot_read(story, "w2");
  EXPECT_EQ(story.told_of("UNREADABLE"), Lines{"UNREADABLE 60"});
  story.stopped({"w1", "w2"}, -1, "cannot read");
  EXPECT_EQ(story.job.current.source.step, 40);
  EXPECT_FALSE(story.job.doubt) << "of the one before, nobody has said anything";
}

TEST(Unreadable, AWorkerThatIsAloneTriesTwice) {
  Story story = returned({"w1"});
  cannot_read(story, "w1");
  story.stopped({"w1"}, -1, "cannot read");
  EXPECT_EQ(story.told_of("FORM").back(), "FORM 3 w1 checkpoint 60");
  cannot_read(story, "w1");
  EXPECT_EQ(story.told_of("UNREADABLE"), Lines{"UNREADABLE 60"});
  story.stopped({"w1"}, -1, "cannot read");
  EXPECT_EQ(story.job.current.source.step, 40);
}

TEST(Unreadable, AWorkerThatTriesBeforeTheOthersAreReadyIsNotAlone) {
  Story story = returned({"w1"});
  story.assigned("w2");
  story.says("w2", Phase::kPreparing);
  for (int i = 0; i < 3; ++i) {
    cannot_read(story, "w1");
    story.stopped({"w1"}, -1, "cannot read");
    story.passes(31'000);
    story.says("w2", Phase::kPreparing);
  }
  EXPECT_EQ(story.told_of("UNREADABLE"), Lines{});
  story.says("w2", Phase::kPrepared);
  cannot_read(story, "w1");
  story.stopped({"w1", "w2"}, -1, "cannot read");
  story.passes(31'000);
  EXPECT_EQ(story.told_of("FORM").back(), "FORM 6 w2 and w1 checkpoint 60");
}

TEST(Unreadable, AWorkerWhoseOthersNeverComeGivesACheckpointUpInTheEnd) {
  Story story = returned({"w1"});
  story.assigned("w2");
  int tries = 0;
  for (; tries < 20 && story.told_of("UNREADABLE").empty(); ++tries) {
    story.says("w2", Phase::kPreparing);
    cannot_read(story, "w1");
    story.stopped({"w1"}, -1, "cannot read");
    story.passes(31'000);
  }
  EXPECT_GE(tries, 6);
  EXPECT_LT(tries, 12);
}

TEST(Unreadable, AWordThatCameLateIsCountedToo) {
  Story story = returned({"w1", "w2"}, "optimizer", 2);
  cannot_read(story, "w2");
  FaultReport late = story.fault("w1", -1, "checkpoint_unreadable");
  late.incarnation = "w1-2";
  late.checkpoint_step = 60;
  story.stopped({"w1", "w2"}, -1, "cannot read");
  story.happens(LateFaultReported{late});
  cannot_read(story, "w2");
  EXPECT_EQ(story.told_of("UNREADABLE"), Lines{"UNREADABLE 60"});
}

TEST(Unreadable, OfADividedStateAllRanksReadAndTheOneThatCannotWaitsUntilOthersHave) {
  Story story = returned({"w1", "w2", "w3"}, "optimizer");
  cannot_read(story, "w2");
  story.stopped({"w1", "w2", "w3"}, -1, "cannot read");
  EXPECT_EQ(story.told_of("FORM").back(), "FORM 3 w1 and w3 checkpoint 60");
  story.all_active(60);
  story.passes(5000);
  EXPECT_EQ(story.told_to("w1"), "join 3") << "no yield takes it in before a step is done";
  story.progress(61);
  story.passes(100);
  EXPECT_EQ(story.told_to("w1"), "yield 3");
}

TEST(Unreadable, OfADividedStateOneThatCannotBeSparedReadsOtherPartsAndIsRefusedWhenItFailsAlone) {
  Story story = returned({"w1", "w2"}, "optimizer", 2);
  cannot_read(story, "w2");
  story.stopped({"w1", "w2"}, -1, "cannot read");
  EXPECT_EQ(story.told_of("FORM").back(), "FORM 3 w2 and w1 checkpoint 60");
  cannot_read(story, "w2");
  EXPECT_THAT(story.told(), Contains(HasSubstr("w2 cannot take part: it could not read the checkpoint of step 60 twice")));
  EXPECT_FALSE(story.job.checkpoints.at(60).unreadable);
}

TEST(Unreadable, AnExplicitChoiceThatCannotBeReadFailsTheJobAndLatestFallsBack) {
  for (const size_t candidates : {1, 2}) {
    Story story;
    story.job.resume = {{StateSource::Kind::kCheckpoint, 60, "j0", "", ""}, {StateSource::Kind::kCheckpoint, 40, "j0", "", ""}};
    story.job.resume.resize(candidates);
    story.job.committed_step = 60;
    story.ready({"w1", "w2"});
    EXPECT_EQ(story.told_of("FORM"), Lines{"FORM 1 w1 and w2 checkpoint 60"});
    cannot_read(story, "w1");
    story.stopped({"w1", "w2"}, -1, "cannot read");
    EXPECT_EQ(story.told_of("FORM"), Lines{"FORM 2 w2 and w1 checkpoint 60"});
    cannot_read(story, "w2");
    story.stopped({"w1", "w2"}, -1, "cannot read");
    if (candidates == 1) {
      EXPECT_EQ(story.job.state, JobState::kFailed);
      EXPECT_NE(story.job.reason.find("step 60"), std::string::npos);
    } else {
      EXPECT_EQ(story.told_of("FORM"), Lines{"FORM 3 w2 and w1 checkpoint 40"});
      EXPECT_EQ(story.job.committed_step, 40) << "nothing of this job's own was lost";
    }
  }
}

}  // namespace
}  // namespace holdfast::rendezvous
