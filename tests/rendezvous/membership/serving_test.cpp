// The membership of a job that serves: replicas hold no state of it, so nothing is written down or waited for.
#include <gmock/gmock.h>

#include "tests/rendezvous/membership/story.h"

namespace holdfast::rendezvous {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

Story serving(const std::vector<std::string>& workers) {
  Story story(1, 8);
  story.job.spec = JobSpec{};
  story.job.spec.kind = "serve";
  story.job.spec.name = "texts";
  story.job.spec.init_from = "job:j0@60";
  story.job.spec.total_steps = 0;
  story.ready(workers);
  story.all_active(-1);
  return story;
}

TEST(Serving, FormsOfWhoIsReadyAndSaysWhatItServes) {
  Story story = serving({"w1", "w2"});
  EXPECT_EQ(story.job.state, JobState::kRunning);
  EXPECT_THAT(story.told(), Contains(HasSubstr("generation 1 forms of w1 and w2, to serve job:j0@60")));
}

TEST(Serving, AReplicaComesAndGoesWithoutACheckpoint) {
  Story story = serving({"w1"});
  story.told();
  story.ready({"w2"});
  EXPECT_EQ(story.told_to("w1"), "yield 1");
  story.stopped({"w1"}, -1);
  EXPECT_THAT(story.told(), Contains("FORM 2 w1 and w2 initial 0"));
  story.all_active(-1);
  story.leaves("w1", -1);
  EXPECT_EQ(story.told_to("w1"), "yield 2");
  story.stopped({"w1", "w2"}, -1);
  EXPECT_THAT(story.told(), Contains("FORM 3 w2 initial 0"));
}

TEST(Serving, TheLastReplicaMayGo) {
  Story story = serving({"w1"});
  story.leaves("w1", -1);
  EXPECT_EQ(story.told_to("w1"), "yield 1") << "there is nothing to write down";
  story.stopped({"w1"}, -1);
  EXPECT_TRUE(story.job.participants.empty());
  EXPECT_EQ(story.job.state, JobState::kWaiting);
}

TEST(Serving, GivesItsWorkersToAJobOfHigherPriorityAtOnce) {
  Story story = serving({"w1", "w2"});
  EXPECT_TRUE(is_preemptible(story.job, story.now));
  story.happens(PreemptAsked{"j7", 5});
  EXPECT_EQ(story.told_to("w1"), "yield 1");
  story.stopped({"w1", "w2"}, -1);
  const Lines told = story.told();
  EXPECT_THAT(told, Contains("FREE w1"));
  EXPECT_THAT(told,
              Contains("job_preempted: preempted by j7 (priority 5): it goes on by itself when there are workers for it"));
  EXPECT_EQ(story.job.preemptions, 1);
}

TEST(Serving, PausesResumesAndStopsInItsOwnWords) {
  Story story = serving({"w1"});
  story.happens(PauseAsked{});
  story.stopped({"w1"}, -1);
  EXPECT_EQ(story.job.state, JobState::kPaused);
  EXPECT_EQ(story.job.reason, "paused");
  story.happens(ResumeAsked{});
  EXPECT_THAT(story.told(), Contains("job_resumed: it serves again when there are workers"));
  story.ready({"w1"});
  story.all_active(-1);
  story.happens(StopAsked{});
  story.stopped({"w1"}, -1);
  EXPECT_EQ(story.job.state, JobState::kCancelled);
  EXPECT_EQ(story.job.reason, "it serves no more");
}

TEST(Serving, LosesReplicasAsOftenAsItLikesWithoutWaitingLonger) {
  Story story = serving({"w1", "w2"});
  for (int64_t time = 0; time < 8; ++time) {
    story.told();
    story.happens(WorkerGone{"w2", "killed"});
    story.stopped({"w1"}, -1);
    ASSERT_THAT(story.told(), Contains(HasSubstr("FORM"))) << "after " << time << " losses";
    story.all_active(-1);
    story.ready({"w2"});
    story.stopped({"w1"}, -1);
    story.all_active(-1);
  }
  EXPECT_EQ(story.job.restarts, 8);
}

TEST(Serving, RefusesAReplicaWithAnotherModel) {
  Story story = serving({"w1"});
  story.told();
  story.assigned("w2");
  WorkerStatus other = story.status("w2", Phase::kPrepared, 0, -1);
  other.data_digest = "d2";
  story.happens(WorkerReported{"w2", other});
  const Lines told = story.told();
  EXPECT_THAT(told, Contains("REFUSE w2"));
  EXPECT_THAT(told, Contains(HasSubstr("its model differs: job:j0@60 has digest d2 there, d1 at the others")));
  EXPECT_THAT(told, Not(Contains(HasSubstr("training data"))));
}

}  // namespace
}  // namespace holdfast::rendezvous
