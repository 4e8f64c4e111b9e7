// Members that live and do not reach each other: apart on the ring, or one of them waits.
#include <gtest/gtest.h>

#include <algorithm>

#include "rendezvous/membership/seating.h"
#include "rendezvous/text/natural_order.h"
#include "tests/rendezvous/membership/story.h"

namespace holdfast::rendezvous {
namespace {

constexpr Millis kPauseMs = 60000;

std::string ring_of(const Story& story) {
  std::string names;
  for (const Member& member : story.job.current.members) names += (names.empty() ? "" : " ") + member.worker;
  return names;
}

std::vector<std::string> members_of(const Story& story) {
  std::vector<std::string> names;
  for (const Member& member : story.job.current.members) names.push_back(member.worker);
  return names;
}

bool is_prepared_in_story(const Story& story, const std::string& worker) {
  const auto found = story.job.participants.find(worker);
  return found != story.job.participants.end() && found->second.status.phase == Phase::kPrepared;
}

// The members join; where `a` and `b` are neighbours their ring does not form: both say so after 10 s, and all stop with the
// state that they have. Whether it failed.
bool fails_between(Story& story, const std::string& a, const std::string& b, int64_t held, bool is_refused = false) {
  const auto names = members_of(story);
  const auto at = [&](const std::string& name) { return std::ranges::find(names, name) - names.begin(); };
  const auto size = static_cast<int64_t>(names.size()), i = at(a), j = at(b);
  if (i == size || j == size || ((i + 1) % size != j && (j + 1) % size != i)) return false;
  story.passes(10000);
  FaultReport report = story.fault(a, static_cast<int>(j), "handshake_failed");
  report.suspect_gone = is_refused;
  story.happens(FaultReported{report});
  for (const auto& name : names) story.says(name, Phase::kPrepared, story.job.current.number, held);
  // The next generation may have to wait: generations in a row without a step are put off.
  for (int second = 0; second < 40 && story.job.stage == Stage::kForming; ++second) story.passes(1000);
  return true;
}

// Two at step 10 that could not form a ring twice.
Story two_apart() {
  Story story = running({"w1", "w2"}, 10);
  story.happens(FaultReported{story.fault("w1", 1, "timeout")});
  story.stopped({"w1", "w2"}, 10);
  EXPECT_TRUE(fails_between(story, "w1", "w2", 10));
  EXPECT_TRUE(fails_between(story, "w1", "w2", 10));
  return story;
}

void goes_on(Story& story, int64_t step) {
  story.all_active(story.job.committed_step);
  story.progress(step);
}

TEST(Rifts, OfFourAreKeptApartAfterOneRingThatDidNotForm) {
  Story story = running({"w1", "w2", "w3", "w4"}, 10);
  story.happens(FaultReported{story.fault("w2", 2, "timeout")});
  story.stopped({"w1", "w2", "w3", "w4"}, 10);
  ASSERT_TRUE(fails_between(story, "w2", "w3", 10));
  EXPECT_EQ(ring_of(story), "w1 w2 w4 w3") << "nearest to the order that they had";
  EXPECT_FALSE(fails_between(story, "w2", "w3", 10));
  goes_on(story, 11);
  EXPECT_EQ(story.job.fruitless, 0);
}

TEST(Rifts, OfThreeLeaveTheHigherRankWaitingAfterTheSecond) {
  Story story = running({"w1", "w2", "w3"}, 10);
  story.happens(FaultReported{story.fault("w1", 1, "timeout")});
  story.stopped({"w1", "w2", "w3"}, 10);
  ASSERT_TRUE(fails_between(story, "w1", "w2", 10));
  EXPECT_EQ(ring_of(story), "w1 w2 w3") << "once may be an accident";
  story.told();
  ASSERT_TRUE(fails_between(story, "w1", "w2", 10));
  EXPECT_EQ(ring_of(story), "w1 w3");
  EXPECT_EQ(
      story.told_of("worker_left_out"),
      Lines{"worker_left_out: w2 waits: it answers the service, but no ring formed with it and w1 as neighbours, and there "
            "is no other place for it. Look for a firewall or a broken cable at w2 (w2:1); it is tried again in 60 s, or at "
            "once when it is started again"});
  goes_on(story, 11);
}

TEST(Rifts, AreAlsoWhereAFirewallRefusesAndBothLive) {
  Story story = running({"w1", "w2", "w3"}, 10);
  story.happens(FaultReported{story.fault("w1", 1, "timeout")});
  story.stopped({"w1", "w2", "w3"}, 10);
  ASSERT_TRUE(fails_between(story, "w1", "w2", 10, true));
  EXPECT_EQ(ring_of(story), "w1 w2 w3");
  story.told();
  ASSERT_TRUE(fails_between(story, "w1", "w2", 10, true));
  EXPECT_EQ(ring_of(story), "w1 w3");
}

TEST(Rifts, OneThatWaitsIsTriedAgainAfterAPauseThatDoubles) {
  Story story = two_apart();
  EXPECT_EQ(ring_of(story), "w1");
  for (const Millis pause : {kPauseMs, 2 * kPauseMs, 4 * kPauseMs}) {
    goes_on(story, story.job.committed_step + 1);
    story.passes(pause - 1);
    EXPECT_EQ(story.job.stage, Stage::kRunning);
    story.passes(1);
    ASSERT_EQ(story.job.stage, Stage::kYielding) << "w2 joins, on trial";
    story.stopped({"w1"}, story.job.committed_step);
    ASSERT_EQ(ring_of(story), "w1 w2");
    ASSERT_TRUE(fails_between(story, "w1", "w2", story.job.committed_step));
    EXPECT_EQ(ring_of(story), "w1");
  }
}

TEST(Rifts, ATrialThatSucceedsEndsThem) {
  Story story = two_apart();
  goes_on(story, 11);
  story.passes(kPauseMs);
  story.stopped({"w1"}, 11);
  ASSERT_EQ(ring_of(story), "w1 w2");
  goes_on(story, 12);
  EXPECT_TRUE(story.job.rifts.empty());
}

TEST(Rifts, ANewLifeIsBelievedAtOnce) {
  Story story = two_apart();
  goes_on(story, 11);
  story.happens(WorkerGone{"w2", "it was started again"});
  story.assigned("w2", "avx512", 2);
  story.says("w2", Phase::kPrepared);
  EXPECT_EQ(story.job.stage, Stage::kYielding);
  story.stopped({"w1"}, 11);
  EXPECT_EQ(ring_of(story), "w1 w2");
}

TEST(Rifts, TheOnlyHolderOfTheNewestStateDoesNotWait) {
  Story story = running({"w1", "w2"}, 10);
  story.happens(FaultReported{story.fault("w1", 1, "timeout")});
  story.stopped({"w1"}, 9);
  story.stopped({"w2"}, 10);
  for (int i = 0; i < 2; ++i) {
    story.passes(10000);
    story.happens(FaultReported{story.fault("w1", 1, "handshake_failed")});
    story.says("w1", Phase::kPrepared, story.job.current.number, 9);
    story.says("w2", Phase::kPrepared, story.job.current.number, 10);
  }
  EXPECT_EQ(ring_of(story), "w2");
}

TEST(Rifts, AReportThatComesAfterTheNextGenerationCountsAllTheSame) {
  Story story = running({"w1", "w2"}, 10);
  story.happens(FaultReported{story.fault("w1", 1, "timeout")});
  story.stopped({"w1", "w2"}, 10);
  for (int i = 0; i < 3; ++i) {
    const FaultReport late = story.fault("w1", 1, "handshake_failed");
    story.passes(10000);
    story.stopped({"w1", "w2"}, 10, "forming the ring failed");
    story.happens(LateFaultReported{late});
  }
  for (int second = 0; second < 40 && story.job.stage == Stage::kForming; ++second) story.passes(1000);
  EXPECT_EQ(ring_of(story), "w1");
}

TEST(Rifts, WhoeverIsInTheWayOfTheOthersIsNamed) {
  Story story = running({"w1", "w2"}, 10, 2);
  EXPECT_TRUE(in_the_way(story.job, story.now).empty());
  story.happens(FaultReported{story.fault("w1", 1, "timeout")});
  story.stopped({"w1", "w2"}, 10);
  ASSERT_TRUE(fails_between(story, "w1", "w2", 10));
  ASSERT_TRUE(fails_between(story, "w1", "w2", 10));
  EXPECT_EQ(in_the_way(story.job, story.now), Lines{"w2"});
  story.happens(WorkerUnwanted{"w2", "another worker is free"});
  story.happens(FaultReported{story.fault("w1", 1, "handshake_failed")});
  story.stopped({"w1", "w2"}, 10);
  story.ready({"w3"});
  for (int second = 0; second < 40 && story.job.stage == Stage::kForming; ++second) story.passes(1000);
  EXPECT_EQ(ring_of(story), "w1 w3");
}

TEST(Rifts, NobodyIsLeftOutBelowTheMinimum) {
  Story story = running({"w1", "w2"}, 10, 2);
  story.happens(FaultReported{story.fault("w1", 1, "timeout")});
  story.stopped({"w1", "w2"}, 10);
  for (int i = 0; i < 6; ++i) {
    ASSERT_TRUE(fails_between(story, "w1", "w2", 10));
    EXPECT_EQ(ring_of(story), "w1 w2") << "it is tried again, later and later";
  }
}

TEST(Rifts, AnotherOrderIsTriedAtOnceTheSameOneLater) {
  Story story = running({"w1", "w2", "w3", "w4", "w5"}, 10);
  story.job.fruitless = 8;
  story.happens(FaultReported{story.fault("w1", 1, "timeout")});
  story.stopped({"w1", "w2", "w3", "w4", "w5"}, 10);
  EXPECT_EQ(story.job.stage, Stage::kForming);
  story.passes(30000);
  ASSERT_EQ(ring_of(story), "w1 w2 w3 w4 w5");
  story.happens(FaultReported{story.fault("w1", 1, "handshake_failed")});
  story.stopped({"w1", "w2", "w3", "w4", "w5"}, 10);
  EXPECT_EQ(story.job.stage, Stage::kRunning);
  EXPECT_EQ(ring_of(story), "w1 w3 w2 w4 w5");
}

TEST(Rifts, AJoinerBehindAFirewallStopsTheOthersTwiceAndThenWaits) {
  Story story = running({"w1", "w2", "w3"}, 10);
  story.ready({"w4"});
  story.stopped({"w1", "w2", "w3"}, 10);
  ASSERT_EQ(ring_of(story), "w1 w2 w3 w4");
  // Nobody reaches it: first one neighbour finds out, and then the one that it has instead.
  ASSERT_TRUE(fails_between(story, "w1", "w4", 10));
  EXPECT_EQ(ring_of(story), "w1 w2 w4 w3");
  ASSERT_TRUE(fails_between(story, "w2", "w4", 10));
  EXPECT_EQ(ring_of(story), "w1 w2 w3");
  story.told();
  goes_on(story, 11);
  story.passes(1000);
  EXPECT_TRUE(is_prepared_in_story(story, "w4"));
  EXPECT_EQ(story.told_of("generation_yields"), Lines{}) << "it waits without stopping the others";
}

TEST(Rifts, OneThatHasDiedOrSleepsIsNone) {
  Story story = running({"w1", "w2", "w3"}, 10);
  story.happens(FaultReported{story.fault("w1", 1, "handshake_failed")});
  story.stopped({"w1", "w3"}, 10);
  story.passes(500);
  EXPECT_EQ(ring_of(story), "w1 w3");
  EXPECT_TRUE(story.job.rifts.empty());
}

TEST(Rifts, SixteenWithManyOfThemAreSeated) {
  JobMembership job;
  job.min_nodes = 1;
  std::vector<std::string> names;
  for (int i = 1; i <= 16; ++i) {
    names.push_back(fmt::format("w{}", i));
    Participant p;
    p.member = {names.back(), names.back() + "-1", names.back() + ":1"};
    job.participants[names.back()] = p;
  }
  // Nobody reaches the next two.
  for (int i = 0; i < 16; ++i) {
    for (const int next : {1, 2}) {
      const std::string &a = names[i], &b = names[(i + next) % 16];
      Rift rift;
      rift.first = job.participants.at(a).member;
      rift.second = job.participants.at(b).member;
      rift.strikes = 2;
      rift.again_ms = 1000;
      job.rifts[natural_less(a, b) ? RiftKey{a, b} : RiftKey{b, a}] = rift;
    }
  }
  const Seating seating = seat_ring(job, names, 0);
  EXPECT_EQ(seating.ring.size(), 16U);
  EXPECT_TRUE(seating.waiting.empty());
  for (size_t i = 0; i < seating.ring.size(); ++i) {
    const std::string &a = seating.ring[i], &b = seating.ring[(i + 1) % seating.ring.size()];
    EXPECT_FALSE(job.rifts.contains(natural_less(a, b) ? RiftKey{a, b} : RiftKey{b, a})) << a << " beside " << b;
  }
}

}  // namespace
}  // namespace holdfast::rendezvous
