// Priorities, preemption, what jobs require, extras among equals, and who may be overtaken for how long.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rendezvous/scheduler/requirements.h"
#include "rendezvous/scheduler/schedule.h"

namespace holdfast::rendezvous {
namespace {

using Availability = SchedulableWorker::Availability;
using Lines = std::vector<std::string>;

SchedulableJob job(int64_t number, int64_t priority, int64_t min, int64_t nodes, int64_t max,
                   std::vector<std::string> workers = {}) {
  SchedulableJob job{fmt::format("j{}", number), number, priority, min, nodes, max};
  job.training = job.preemptible = static_cast<int64_t>(workers.size()) >= min;
  job.workers = std::move(workers);
  return job;
}

WorkerSet these(const std::set<std::string>& workers) {
  return std::make_shared<const std::set<std::string>>(workers);
}

// The workers of the jobs are taken, the others free.
std::vector<SchedulableWorker> workers(const std::vector<SchedulableJob>& jobs, const std::vector<std::string>& free = {}) {
  std::vector<SchedulableWorker> all;
  for (const SchedulableJob& job : jobs) {
    for (const std::string& worker : job.workers) all.push_back({worker, Availability::kTaken, job.id});
  }
  for (const std::string& worker : free) all.push_back({worker, Availability::kFree, ""});
  return all;
}

Lines plan_with(const std::vector<SchedulableJob>& jobs, const std::vector<SchedulableWorker>& workers, int64_t now_ms = 0) {
  const Plan plan = schedule(jobs, workers, now_ms);
  Lines lines;
  for (const Preemption& p : plan.preemptions) lines.push_back(p.job + " preempted by " + p.by);
  for (const Assignment& a : plan.assignments) lines.push_back(a.worker + " to " + a.job);
  for (const TakenBack& t : plan.taken_back) lines.push_back(t.worker + " back from " + t.job);
  return lines;
}
Lines plan(const std::vector<SchedulableJob>& jobs, const std::vector<std::string>& free = {}) {
  return plan_with(jobs, workers(jobs, free));
}

TEST(Queue, AHigherPriorityTakesWhatIsAboveMinNodesFirst) {
  EXPECT_EQ(plan({job(1, 0, 1, 3, 3, {"w1", "w2", "w3"}), job(2, 5, 2, 2, 2)}), (Lines{"w3 back from j1", "w2 back from j1"}));
}

TEST(Queue, OneOfTheSamePriorityTakesWhatIsAboveTheNominalNumberAlone) {
  EXPECT_EQ(plan({job(1, 0, 1, 3, 3, {"w1", "w2", "w3"}), job(2, 0, 2, 2, 2)}), Lines{});
  EXPECT_EQ(plan({job(1, 0, 1, 1, 3, {"w1", "w2", "w3"}), job(2, 0, 2, 2, 2)}), (Lines{"w3 back from j1", "w2 back from j1"}));
}

TEST(Queue, WhereThatIsNotEnoughTheLowestThenYoungestIsPreempted) {
  const auto low_old = job(1, 0, 1, 1, 1, {"w1"}), low_young = job(2, 0, 1, 1, 1, {"w2"}), middle = job(3, 3, 1, 1, 1, {"w3"});
  EXPECT_EQ(plan({low_old, low_young, middle, job(4, 5, 1, 1, 1)}), Lines{"j2 preempted by j4"});
  EXPECT_EQ(plan({low_old, low_young, middle, job(4, 5, 2, 2, 2)}), (Lines{"j2 preempted by j4", "j1 preempted by j4"}));
}

TEST(Queue, NobodyIsPreemptedWhenAllOfThemAreNotEnough) {
  EXPECT_EQ(plan({job(1, 0, 2, 2, 2, {"w1", "w2"}), job(2, 5, 3, 3, 3)}), Lines{});
  SchedulableJob picky = job(2, 5, 2, 2, 2);
  picky.refused["w2"] = "its data file differs";
  EXPECT_EQ(plan({job(1, 0, 2, 2, 2, {"w1", "w2"}), picky}), Lines{});
  picky.refused.clear();
  picky.unfit = these({"w1"});
  EXPECT_EQ(plan({job(1, 0, 2, 2, 2, {"w1", "w2"}), picky}), Lines{});
  picky.unfit = nullptr;
  picky.doubtful = {"w1"};
  EXPECT_EQ(plan({job(1, 0, 2, 2, 2, {"w1", "w2"}), picky}), Lines{}) << "it was refused before: nobody is disturbed for it";
  picky.doubtful.clear();
  picky.unlike = these({"w1"});
  EXPECT_EQ(plan({job(1, 0, 2, 2, 2, {"w1", "w2"}), picky}), Lines{}) << "it will be refused";
}

TEST(Queue, NorForWorkersThatDoNotFitEachOther) {
  SchedulableJob exact = job(2, 5, 2, 2, 2);
  exact.alike = true;
  const auto low = job(1, 0, 2, 2, 2, {"w1", "w2"});
  auto unlike = workers({low}), alike = workers({low});
  unlike[0].numerics = alike[0].numerics = alike[1].numerics = "avx512";
  unlike[1].numerics = "avx2";
  EXPECT_EQ(plan_with({low, exact}, unlike), Lines{});
  EXPECT_EQ(plan_with({low, exact}, alike), Lines{"j1 preempted by j2"});
}

// Free workers w1, w2 … of these numerics.
std::vector<SchedulableWorker> of_kinds(const std::vector<std::string>& kinds) {
  std::vector<SchedulableWorker> all;
  for (const std::string& kind : kinds) {
    all.push_back({fmt::format("w{}", all.size() + 1), Availability::kFree, ""});
    all.back().numerics = kind;
  }
  return all;
}

TEST(Queue, AJobWhoseWorkersMustBeAlikeGetsThoseOfOneKind) {
  SchedulableJob exact = job(1, 0, 2, 3, 4);
  exact.alike = true;
  EXPECT_EQ(plan_with({exact}, of_kinds({"avx2", "avx512", "avx2", "avx512", "avx512"})),
            (Lines{"w2 to j1", "w4 to j1", "w5 to j1"}));
  const Plan apart = schedule({exact}, of_kinds({"avx2", "avx512"}), 0);
  EXPECT_EQ(apart.assignments.size(), 1u) << "two that do not fit each other are not enough";
  EXPECT_EQ(apart.waiting.at("j1").there, 1);
  EXPECT_EQ(apart.waiting.at("j1").refused.size(), 1u) << "and it is said why the other is not taken";
}

TEST(Queue, AndReturnsThoseOfAnotherKind) {
  SchedulableJob exact = job(1, 0, 2, 2, 2, {"w1"});
  exact.alike = true;
  auto all = of_kinds({"avx2", "avx512", "avx512"});
  all[0].availability = Availability::kTaken;
  EXPECT_EQ(plan_with({exact}, all), (Lines{"w2 to j1", "w3 to j1", "w1 back from j1"}));
  all.pop_back();
  EXPECT_EQ(plan_with({exact}, all), Lines{}) << "no kind is enough: it keeps what it has";
}

TEST(Queue, AKindOfWhichThereAreNeverEnoughIsNotChosen) {
  SchedulableJob exact = job(2, 0, 2, 2, 2);
  exact.alike = true;
  exact.waits_since_ms = 0;
  const auto other = job(1, 0, 1, 1, 1, {"w3"});
  auto all = of_kinds({"avx2", "avx512", "avx512"});
  all[2].availability = Availability::kTaken;
  EXPECT_EQ(plan_with({other, exact}, all, kPatienceMs), Lines{"w2 to j2"});
}

TEST(Queue, OneThatLostWorkersPreemptsNobodyUntilTheyStayAway) {
  const auto low = job(1, 0, 1, 1, 1, {"w1"});
  SchedulableJob high = job(2, 5, 2, 2, 2, {"w2"});
  high.begun = true;
  EXPECT_EQ(plan_with({low, high}, workers({low, high})), Lines{});
  high.waits_since_ms = 0;
  EXPECT_EQ(plan_with({low, high}, workers({low, high}), kBackMs - 1), Lines{});
  EXPECT_EQ(plan_with({low, high}, workers({low, high}), kBackMs), Lines{"j1 preempted by j2"});
}

TEST(Queue, EqualPrioritiesNeverPreemptAndOneThatCannotComeBackIsLeftAlone) {
  EXPECT_EQ(plan({job(1, 5, 2, 2, 2, {"w1", "w2"}), job(2, 5, 1, 1, 1)}), Lines{});
  SchedulableJob low = job(1, 0, 2, 2, 2, {"w1", "w2"});
  low.preemptible = false;
  EXPECT_EQ(plan({low, job(2, 5, 1, 1, 1)}), Lines{});
}

TEST(Queue, ASmallOneIsLeftAloneWhereALargerOneIsEnough) {
  const auto small = job(2, 0, 1, 1, 1, {"w9"}), large = job(1, 0, 3, 3, 3, {"w1", "w2", "w3"});
  EXPECT_EQ(plan({large, small, job(3, 5, 3, 3, 3)}), Lines{"j1 preempted by j3"});
}

TEST(Queue, WhatIsOnTheWayIsWaitedForAndNobodyElseIsPreempted) {
  // j1 is giving up its workers: it is not shown, and they come.
  const auto other = job(2, 0, 1, 1, 1, {"w3"}), high = job(3, 5, 2, 2, 2);
  auto all = workers({other});
  for (const char* id : {"w1", "w2"}) all.push_back({id, Availability::kComing, "j1"});
  const Plan made = schedule({other, high}, all, 0);
  EXPECT_TRUE(made.preemptions.empty());
  EXPECT_EQ(in_words(made.waiting.at("j3")), "waiting for 2 more workers: 2 needed, 0 there, 2 are being freed for it");
}

TEST(Queue, WhoHasItsMinimumWithThoseOnTheWayKeepsWhatItHas) {
  const auto first = job(1, 0, 2, 2, 2, {"w1"}), small = job(2, 0, 1, 1, 1);
  auto all = workers({first});
  all.push_back({"w2", Availability::kComing, "j0"});
  EXPECT_EQ(plan_with({first, small}, all), Lines{});
}

TEST(Queue, ExtrasAreDealtEvenlyAmongEqualsAndToHigherPrioritiesFirst) {
  EXPECT_EQ(plan({job(1, 0, 1, 1, 9, {"w1"}), job(2, 0, 1, 1, 9, {"w2"})}, {"w3", "w4", "w5", "w6"}),
            (Lines{"w3 to j1", "w4 to j2", "w5 to j1", "w6 to j2"}));
  EXPECT_EQ(plan({job(1, 0, 1, 1, 9, {"w1"}), job(2, 0, 1, 2, 9, {"w2", "w7"}), job(3, 1, 1, 1, 2, {"w8"})}, {"w3", "w4"}),
            (Lines{"w3 to j3", "w4 to j1"}));
}

TEST(Queue, ExtrasMoveToAJobOfTheSamePriorityThatHasTwoFewer) {
  EXPECT_EQ(plan({job(1, 0, 1, 1, 9, {"w1", "w2", "w3", "w4"}), job(2, 0, 1, 1, 9, {"w5", "w6"})}), Lines{"w4 back from j1"});
  EXPECT_EQ(plan({job(1, 0, 1, 1, 9, {"w1", "w2", "w3"}), job(2, 0, 1, 1, 9, {"w5", "w6"})}), Lines{});
}

TEST(Queue, ExtrasBringOthersToTheirNominalNumberWhateverThePriority) {
  EXPECT_EQ(plan({job(1, 5, 1, 1, 9, {"w1", "w2", "w3"}), job(2, 0, 1, 2, 2, {"w5"})}), Lines{"w3 back from j1"});
  EXPECT_EQ(plan({job(1, 0, 1, 1, 9, {"w1", "w2"}), job(2, 5, 1, 1, 2, {"w5"})}), Lines{"w2 back from j1"})
      << "extras go to the higher priority";
}

TEST(Queue, AJobThatWaitedLongIsNotOvertakenAnyMore) {
  SchedulableJob patient = job(1, 0, 3, 3, 3), young = job(2, 0, 1, 1, 1);
  const auto running = job(3, 0, 2, 2, 2, {"w1", "w2"});
  EXPECT_EQ(plan_with({patient, young, running}, workers({running}, {"w3"}), kPatienceMs), Lines{"w3 to j2"});
  patient.waits_since_ms = 1;
  EXPECT_EQ(plan_with({patient, young, running}, workers({running}, {"w3"}), kPatienceMs), Lines{"w3 to j2"});
  EXPECT_EQ(plan_with({patient, young, running}, workers({running}, {"w3"}), kPatienceMs + 1), Lines{"w3 to j1"});
  patient.workers = {"w3"};  // and keeps it
  EXPECT_EQ(plan_with({patient, young, running}, workers({patient, running}), kPatienceMs + 2), Lines{});
  const auto urgent = job(4, 1, 1, 1, 1);
  EXPECT_EQ(plan_with({patient, urgent, running}, workers({patient, running}), kPatienceMs + 2), Lines{"w3 back from j1"});
}

TEST(Queue, WhatIsKeptForItIsNotKeptFromHigherPrioritiesBelowTheirNominalNumber) {
  SchedulableJob patient = job(1, 0, 2, 2, 2);
  patient.waits_since_ms = 0;
  auto high = job(2, 5, 1, 2, 2, {"w1"});
  const auto other = job(3, 0, 1, 1, 1, {"w2"});
  const auto fourth = job(4, 0, 1, 1, 1, {"w4"});
  const std::vector<SchedulableJob> all{patient, high, other, fourth};
  EXPECT_EQ(plan_with(all, workers(all, {"w3"}), kPatienceMs), Lines{"w3 to j2"});
  high = job(2, 5, 1, 1, 1, {"w1"});
  EXPECT_EQ(plan_with({patient, high, other}, workers({high, other}, {"w3"}), kPatienceMs), Lines{"w3 to j1"});
  const auto urgent = job(5, 5, 1, 3, 3, {"w2", "w4"});
  const auto young = job(6, 0, 1, 1, 1);
  EXPECT_EQ(plan_with({patient, high, urgent, young}, workers({high, urgent}, {"w3"}), kPatienceMs), Lines{"w3 to j6"})
      << "w1, w2 and w4 are others' by right, so nothing is kept for one that needs two";
}

TEST(Queue, OneThatCouldNotBeginWithAllWorkersKeepsNobodyWaiting) {
  SchedulableJob hopeless = job(1, 0, 5, 5, 5);
  hopeless.waits_since_ms = 0;
  EXPECT_EQ(plan_with({hopeless, job(2, 0, 1, 1, 1)}, workers({}, {"w3"}), 2 * kPatienceMs), Lines{"w3 to j2"});
}

// --- what a job requires

RegisterRequest worker(const std::string& device, int64_t gib, const Labels& labels = {}, const std::string& numerics = "") {
  RegisterRequest worker;
  worker.device = device;
  worker.memory_bytes = gib << 30;
  worker.labels = labels;
  worker.numerics = numerics;
  return worker;
}

TEST(Requirements, AreTheDeviceItsMemoryAndLabels) {
  const RegisterRequest cpu = worker("cpu", 64, {{"zone", "a"}}), gpu = worker("hip", 32, {}, "hip/gfx1201/rocm");
  EXPECT_TRUE(satisfies(cpu, {}));
  EXPECT_TRUE(satisfies(cpu, {{"device", "cpu"}, {"memory_gib", "64"}, {"zone", "a"}}));
  EXPECT_FALSE(satisfies(cpu, {{"device", "hip"}}));
  EXPECT_FALSE(satisfies(cpu, {{"memory_gib", "64.5"}}));
  EXPECT_FALSE(satisfies(cpu, {{"zone", "b"}}));
  EXPECT_FALSE(satisfies(gpu, {{"zone", ""}})) << "a label that is not there is not an empty one";
  EXPECT_TRUE(satisfies(gpu, {{"device", "hip"}}));
  EXPECT_FALSE(satisfies(gpu, {{"device", "cuda"}}));
  EXPECT_TRUE(satisfies(worker("hip", 80, {}, "hip/sm_90/cuda-13"), {{"device", "cuda"}}));
}

TEST(Requirements, WhichOneIsMissingIsSaidWithWhatWorkersHave) {
  const RegisterRequest a = worker("cpu", 64, {{"zone", "a"}}), b = worker("cpu", 16, {{"zone", "b"}}), c = worker("cpu", 16);
  EXPECT_EQ(unsatisfied_in_words({{"device", "hip"}}, {&a, &b, &c}),
            "none of 3 workers satisfies what the job requires: device=hip (3 have cpu)");
  EXPECT_EQ(unsatisfied_in_words({{"memory_gib", "24"}, {"zone", "a"}}, {&a, &b, &c}),
            "1 of 3 workers satisfies what the job requires: memory_gib=24 (2 have 16), zone=a (1 has b, 1 has none)");
  EXPECT_EQ(unsatisfied_in_words({{"zone", "a"}}, {&a}), "");
  EXPECT_EQ(unsatisfied_in_words({{"zone", "a"}}, {}), "");
}

TEST(Requirements, LabelsOfWorkersAreChecked) {
  EXPECT_EQ(worker_labels_complaint({{"zone", "a"}, {"rack", ""}}), "");
  EXPECT_THAT(worker_labels_complaint({{"device", "hip"}}), testing::HasSubstr("choose another key"));
  EXPECT_THAT(worker_labels_complaint({{"a b", "x"}}), testing::HasSubstr("letters, digits"));
  EXPECT_THAT(worker_labels_complaint({{"a", std::string(256, 'x')}}), testing::HasSubstr("255 bytes"));
}

}  // namespace
}  // namespace holdfast::rendezvous
