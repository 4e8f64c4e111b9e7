// Which worker goes to which job, and what a job is told that waits.
#include "rendezvous/scheduler/schedule.h"

#include <gtest/gtest.h>

namespace holdfast::rendezvous {
namespace {

using Availability = SchedulableWorker::Availability;

std::vector<SchedulableWorker> idle(const std::vector<std::string>& names) {
  std::vector<SchedulableWorker> workers;
  for (const auto& name : names) workers.push_back({name, Availability::kFree, ""});
  return workers;
}

SchedulableJob job(int64_t number, int64_t min, int64_t nodes, int64_t max, std::vector<std::string> workers = {}) {
  SchedulableJob job{"j" + std::to_string(number), number, 0, min, nodes, max};
  job.workers = std::move(workers);
  job.training = static_cast<int64_t>(job.workers.size()) >= min && !job.workers.empty();
  return job;
}

Plan schedule(std::vector<SchedulableJob> jobs, const std::vector<SchedulableWorker>& workers) {
  return rendezvous::schedule(std::move(jobs), workers, 0);
}

std::vector<std::string> text(const Plan& plan) {
  std::vector<std::string> lines;
  for (const Assignment& a : plan.assignments) lines.push_back(a.worker + " to " + a.job);
  for (const TakenBack& t : plan.taken_back) lines.push_back(t.worker + " back from " + t.job);
  return lines;
}

using Lines = std::vector<std::string>;

TEST(Scheduler, GivesEachJobItsMinimumBeforeAnyItsNominalNumber) {
  const Plan plan = schedule({job(1, 1, 3, 3), job(2, 1, 1, 1)}, idle({"w1", "w2", "w10"}));
  EXPECT_EQ(text(plan), (Lines{"w1 to j1", "w2 to j2", "w10 to j1"}));
}

TEST(Scheduler, HigherPriorityComesFirstThenTheOlder) {
  SchedulableJob urgent = job(3, 2, 2, 2);
  urgent.priority = 5;
  const Plan plan = schedule({job(1, 2, 2, 2), job(2, 2, 2, 2), urgent}, idle({"w1", "w2", "w3", "w4"}));
  EXPECT_EQ(text(plan), (Lines{"w1 to j3", "w2 to j3", "w3 to j1", "w4 to j1"}));
  EXPECT_EQ(in_words(plan.waiting.at("j2")), "waiting for 2 more workers: 2 needed, 0 there");
}

TEST(Scheduler, AJobThatCannotBeginDoesNotKeepWorkersFromOneThatCan) {
  const Plan plan = schedule({job(1, 3, 3, 3), job(2, 2, 2, 2)}, idle({"w1", "w2"}));
  EXPECT_EQ(text(plan), (Lines{"w1 to j2", "w2 to j2"}));
}

TEST(Scheduler, WhatNobodyElseNeedsGetsReadyWithTheJobThatWaits) {
  const Plan plan = schedule({job(1, 3, 3, 3)}, idle({"w1", "w2"}));
  EXPECT_EQ(text(plan), (Lines{"w1 to j1", "w2 to j1"}));
  EXPECT_EQ(in_words(plan.waiting.at("j1")), "waiting for 1 more worker: 3 needed, 2 there");
}

TEST(Scheduler, OneThatOthersDoNotReachIsReplacedInAFullJob) {
  SchedulableJob full = job(1, 2, 2, 2, {"w1", "w2"});
  full.in_the_way = {"w2"};
  EXPECT_EQ(text(schedule({full}, idle({"w3"}))), (Lines{"w3 to j1", "w2 back from j1"}));
  EXPECT_EQ(text(schedule({full}, {})), Lines{});
  full.max_nodes = 3;
  EXPECT_EQ(text(schedule({full}, idle({"w3"}))), Lines{"w3 to j1"});
}

TEST(Scheduler, AHeldBackWorkerAndAnExtraAreEnoughTogether) {
  auto workers = idle({"w3"});
  workers[0].held_back = true;
  const Plan plan = schedule({job(1, 1, 1, 2, {"w1", "w2"}), job(2, 2, 2, 2)}, workers);
  EXPECT_EQ(text(plan), (Lines{"w3 to j2", "w2 back from j1"}));
}

TEST(Scheduler, AHeldBackWorkerIsLeftAloneWhereExtrasAreEnoughOrNothingIs) {
  auto workers = idle({"w4"});
  workers[0].held_back = true;
  EXPECT_EQ(text(schedule({job(1, 1, 1, 3, {"w1", "w2", "w3"}), job(2, 2, 2, 2)}, workers)),
            (Lines{"w3 back from j1", "w2 back from j1"}));
  EXPECT_EQ(text(schedule({job(1, 1, 1, 1, {"w1"}), job(2, 2, 2, 2)}, workers)), Lines{});
}

TEST(Scheduler, IdleWorkersBecomeExtrasUpToTheMaximum) {
  EXPECT_EQ(text(schedule({job(1, 1, 1, 2, {"w1"})}, idle({"w2", "w3"}))), Lines{"w2 to j1"});
}

TEST(Scheduler, ExtrasAreTakenBackForAJobThatCannotBeginOtherwise) {
  const Plan plan = schedule({job(1, 1, 2, 4, {"w1", "w2", "w3", "w4"}), job(2, 2, 2, 2)}, {});
  EXPECT_EQ(text(plan), (Lines{"w4 back from j1", "w3 back from j1"}));
  EXPECT_EQ(plan.taken_back[0].reason, "job j2 needs it to begin");
}

TEST(Scheduler, NobodyIsTakenWhenItWouldNotSufficeOrBelowTheNominalNumber) {
  EXPECT_EQ(text(schedule({job(1, 1, 2, 4, {"w1", "w2", "w3"}), job(2, 2, 2, 2)}, {})), Lines{});
}

TEST(Scheduler, NobodyIsTakenTwiceWhileOneIsOnItsWay) {
  const Plan plan = schedule({job(1, 1, 1, 4, {"w1", "w2", "w3"}), job(2, 1, 1, 1)}, {{"w4", Availability::kComing, "j1"}});
  EXPECT_EQ(text(plan), Lines{});
}

TEST(Scheduler, IsStable) {
  EXPECT_EQ(text(schedule({job(1, 1, 2, 2, {"w1", "w2"}), job(2, 1, 1, 1, {"w3"})}, idle({}))), Lines{});
}

TEST(Scheduler, ALostWorkerThatIsBackGoesToItsFormerJob) {
  const Plan plan = schedule({job(1, 1, 2, 2, {"w1"}), job(2, 1, 2, 2, {"w3"})},
                             {{"w2", Availability::kFree, "j2"}, {"w4", Availability::kFree, "j1"}});
  EXPECT_EQ(text(plan), (Lines{"w4 to j1", "w2 to j2"}));
}

TEST(Scheduler, ScalingDownTakesTheLastOnes) {
  EXPECT_EQ(text(schedule({job(1, 1, 2, 2, {"w1", "w2", "w3"})}, {})), Lines{"w3 back from j1"});
}

TEST(Scheduler, ARefusedWorkerIsNotOfferedAgain) {
  SchedulableJob picky = job(1, 2, 2, 2, {"w1"});
  picky.training = false;
  picky.refused["w4"] = "its data file differs";
  const Plan plan = schedule({picky}, idle({"w4"}));
  EXPECT_EQ(text(plan), Lines{});
  EXPECT_EQ(in_words(plan.waiting.at("j1")), "waiting for 1 more worker: 2 needed, 1 there");
}

TEST(Scheduler, AWaitingJobGivesUpIdleWorkersButNotThoseWhoseMemoryItLivesFrom) {
  SchedulableJob waiting = job(1, 3, 3, 3, {"w1", "w2"});
  waiting.training = false;
  waiting.holders = {"w1"};
  EXPECT_EQ(text(schedule({waiting, job(2, 1, 1, 1)}, {})), Lines{"w2 back from j1"});
  waiting.holders = {"w1", "w2"};
  EXPECT_EQ(text(schedule({waiting, job(2, 1, 1, 1)}, {})), Lines{});
}

}  // namespace
}  // namespace holdfast::rendezvous
