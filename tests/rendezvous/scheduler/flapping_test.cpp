// Workers that are lost again and again: how long they are held back, and from whom.
#include "rendezvous/membership/flapping.h"

#include <gtest/gtest.h>

#include "rendezvous/scheduler/schedule.h"

namespace holdfast::rendezvous {
namespace {

constexpr int64_t kSecond = 1000, kMinute = 60 * kSecond;

// Lives of the given lengths, each lost; returns the pause after the last.
int64_t pause_after(LossRecord& record, int64_t& now_ms, int lives, int64_t length_ms) {
  for (int i = 0; i < lives; ++i) {
    now_ms += held_back_ms(record, now_ms);
    note_life(record, now_ms);
    now_ms += length_ms;
    note_loss(record, now_ms);
  }
  return held_back_ms(record, now_ms);
}

TEST(Flapping, TheFourthLossInARowBeginsPausesThatDoubleUpToFiveMinutes) {
  LossRecord record;
  int64_t now_ms = 1'700'000'000'000;
  EXPECT_EQ(pause_after(record, now_ms, 3, 10 * kSecond), 0);
  for (const int64_t pause_s : {5, 10, 20, 40, 80, 160, 300, 300}) {
    EXPECT_EQ(pause_after(record, now_ms, 1, 10 * kSecond), pause_s * kSecond);
  }
  EXPECT_EQ(held_back_in_words("w3", record, now_ms),
            "w3 was lost 11 times in a row, each time within a minute: it is given no work for 300 s unless a job cannot train "
            "without it; a minute of work forgives");
}

TEST(Flapping, ALifeOfAMinuteForgives) {
  LossRecord record;
  int64_t now_ms = 0;
  EXPECT_EQ(pause_after(record, now_ms, 5, kSecond), 10 * kSecond);
  EXPECT_EQ(pause_after(record, now_ms, 1, kMinute), 0);
  EXPECT_EQ(pause_after(record, now_ms, 3, kSecond), 0);
  EXPECT_EQ(pause_after(record, now_ms, 1, kSecond), 5 * kSecond);
}

TEST(Flapping, IdlingThroughAPauseIsNoLife) {
  LossRecord record;
  int64_t now_ms = 0;
  pause_after(record, now_ms, 8, kSecond);
  note_life(record, now_ms);  // back at once, and held back for longer than a minute
  now_ms += held_back_ms(record, now_ms) + kSecond;
  EXPECT_TRUE(note_loss(record, now_ms)) << "it worked for a second";
}

TEST(Flapping, AClockThatWasSetBackHoldsNobody) {
  LossRecord record;
  int64_t now_ms = 10 * kMinute;
  pause_after(record, now_ms, 4, kSecond);
  EXPECT_EQ(held_back_ms(record, now_ms - 6 * kMinute), 0);
}

SchedulableJob job(int64_t min, std::vector<std::string> workers) {
  return {"j1", 1, 0, min, 2, 2, !workers.empty(), std::move(workers), {}, {}, {}};
}
const SchedulableWorker kFlapping{"w3", SchedulableWorker::Availability::kFree, "j1", true};

TEST(Flapping, AJobThatCouldDoWithoutItIsNotGivenAWorkerThatIsHeldBack) {
  EXPECT_TRUE(schedule({job(1, {"w1"})}, {kFlapping}, 0).assignments.empty());
}

TEST(Flapping, AJobThatCannotTrainWithoutItGetsItAtOnce) {
  EXPECT_EQ(schedule({job(2, {"w1"})}, {kFlapping}, 0).assignments.size(), 1u);
  const SchedulableWorker steady{"w4", SchedulableWorker::Availability::kFree, ""};
  const Plan plan = schedule({job(2, {"w1"})}, {kFlapping, steady}, 0);
  ASSERT_EQ(plan.assignments.size(), 1u) << "not when another one is there";
  EXPECT_EQ(plan.assignments[0].worker, "w4");
}

TEST(Flapping, AJobThatHasTooFewEvenWithItIsNotGivenIt) {
  EXPECT_TRUE(schedule({job(2, {})}, {kFlapping}, 0).assignments.empty());
}

}  // namespace
}  // namespace holdfast::rendezvous
