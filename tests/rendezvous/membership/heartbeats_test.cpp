// Which reports decide nothing, and whose directive an event can have changed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rendezvous/text/list_in_words.h"
#include "tests/rendezvous/membership/story.h"

namespace holdfast::rendezvous {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

bool is_heartbeat(Story& story, const std::string& worker, const WorkerStatus& status) {
  return take_heartbeat(story.job, {worker, status}, story.now);
}

TEST(Heartbeats, OfAMemberThatTrainsSayThatItLivesAndHowFarItIs) {
  Story story = running({"w1", "w2"}, 5);
  story.now += 700;
  ASSERT_TRUE(is_heartbeat(story, "w2", story.status("w2", Phase::kActive, 1, 8)));
  EXPECT_EQ(story.job.participants.at("w2").status.step, 8);
  EXPECT_EQ(story.job.participants.at("w2").heard_ms, story.now);
}

TEST(Heartbeats, AnswerTheQuestionWhetherAWorkerLives) {
  Story story = running({"w1", "w2"}, 5);
  story.happens(FaultReported{story.fault("w1", 1, "silent")});
  ASSERT_GE(story.job.participants.at("w2").asked_ms, 0);
  ASSERT_TRUE(is_heartbeat(story, "w2", story.status("w2", Phase::kActive, 1, 5)));
  story.passes(10000);
  EXPECT_THAT(story.told_of("fault_reported"), IsEmpty());
}

TEST(Heartbeats, OfOneThatWaitsAreThoseThatSayTheSameAgain) {
  Story story(3);
  story.ready({"w1", "w2"});
  EXPECT_TRUE(is_heartbeat(story, "w1", story.status("w1", Phase::kPrepared, 0, -1)));
  EXPECT_FALSE(is_heartbeat(story, "w1", story.status("w1", Phase::kPrepared, 0, 4))) << "it has another state";
  story.assigned("w3");
  EXPECT_TRUE(is_heartbeat(story, "w3", story.status("w3", Phase::kIdle, 0, -1)));
  EXPECT_TRUE(is_heartbeat(story, "w3", story.status("w3", Phase::kPreparing, 0, -1)));
  EXPECT_FALSE(is_heartbeat(story, "w3", story.status("w3", Phase::kPrepared, 0, -1))) << "the generation can form";
}

TEST(Heartbeats, AreNotReportsThatSayAnythingNew) {
  Story story = running({"w1", "w2"}, 5);
  const WorkerStatus usual = story.status("w2", Phase::kActive, 1, 5);
  const auto is_news = [&](const std::string& what, const auto& change) {
    WorkerStatus status = usual;
    change(status);
    EXPECT_FALSE(is_heartbeat(story, "w2", status)) << what;
  };
  is_news("it wants to leave", [](WorkerStatus& s) { s.leaving = true; });
  is_news("it stopped", [](WorkerStatus& s) { s.phase = Phase::kPrepared; });
  is_news("it cannot go on", [](WorkerStatus& s) { s.phase = Phase::kRefused; });
  is_news("it begins anew", [](WorkerStatus& s) { s.phase = Phase::kPreparing; });
  is_news("it is in another generation", [](WorkerStatus& s) { s.generation = 2; });
  is_news("it has another job", [](WorkerStatus& s) { s.job = "j9"; });
  is_news("another life of it", [](WorkerStatus& s) { s.incarnation = "w2-2"; });
  EXPECT_TRUE(is_heartbeat(story, "w2", usual)) << "or none of the above says anything";
}

TEST(Heartbeats, OfAPreparedWorkerAreNewsOnceItDoesNotFitTheJob) {
  Story story = running({"w1", "w2"}, 5);
  story.assigned("w3");
  story.says("w3", Phase::kPrepared);
  story.job.participants.at("w3").status.data_digest = "another";
  WorkerStatus status = story.status("w3", Phase::kPrepared, 0, -1);
  status.data_digest = "another";
  EXPECT_FALSE(is_heartbeat(story, "w3", status));
}

TEST(Standings, NameThoseWhoseDirectiveAnEventCanHaveChanged) {
  Story story = running({"w1", "w2", "w3"}, 5);
  EXPECT_THAT(workers_to_notify(story.job), ElementsAre("w1", "w2", "w3")) << "nobody was named before";
  story.progress(6);
  story.passes(50);
  EXPECT_THAT(workers_to_notify(story.job), IsEmpty()) << "a step changes nobody's directive";
  story.happens(FaultReported{story.fault("w1", 1, "silent")});
  EXPECT_THAT(workers_to_notify(story.job), ElementsAre("w2")) << "it alone is asked whether it lives";
  story.happens(FaultReported{story.fault("w1", 1)});
  EXPECT_THAT(workers_to_notify(story.job), ElementsAre("w1", "w2", "w3")) << "all are fenced";
}

// It has to hand over what only it has: a yield that it obeys already says nothing of that.
TEST(Standings, OfAWorkerThatIsTakenWhileItsJobYieldsAreItsOwn) {
  Story story = running({"w1", "w2", "w3"}, 5);
  story.happens(WorkerUnwanted{"w3", "another job needs it"});
  ASSERT_EQ(story.job.stage, Stage::kYielding);
  workers_to_notify(story.job);
  EXPECT_FALSE(directive_for(story.job, "w2").released);
  story.happens(WorkerUnwanted{"w2", "another job needs it, too"});
  EXPECT_THAT(workers_to_notify(story.job), ElementsAre("w2"));
  EXPECT_TRUE(directive_for(story.job, "w2").released);
}

TEST(Standings, OfAWorkerThatComesToARunningJobAreItsOwn) {
  Story story = running({"w1", "w2"}, 5);
  workers_to_notify(story.job);
  story.assigned("w3");
  EXPECT_THAT(workers_to_notify(story.job), ElementsAre("w3"));
  story.says("w3", Phase::kPreparing);
  EXPECT_THAT(workers_to_notify(story.job), IsEmpty());
}

TEST(Assignments, OfManyAreDecidedWithTheLast) {
  Story story(2);
  story.happens(WorkerAssigned{{"w1", "w1-1", "w1:1"}, "avx512", 0, true});
  EXPECT_EQ(story.job.reason, "") << "others follow";
  story.happens(WorkerAssigned{{"w2", "w2-1", "w2:1"}, "avx512", 0});
  EXPECT_EQ(story.job.reason, "waiting for 2 more workers: 2 needed, 0 ready, w1 and w2 are getting ready");
}

TEST(NamesInWords, AreCutWhereNobodyWouldReadThem) {
  std::vector<std::string> names;
  for (int i = 1; i <= 1000; ++i) names.push_back(fmt::format("w{}", i));
  const std::string words = in_words(names);
  EXPECT_TRUE(words.ends_with("w31, w32 and 968 more")) << words;
  names.resize(33);
  EXPECT_TRUE(in_words(names).ends_with("w32 and w33")) << in_words(names);
}

}  // namespace
}  // namespace holdfast::rendezvous
