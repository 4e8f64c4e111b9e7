// A plan that breaks a promise ends the process, with what was broken.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "rendezvous/scheduler/plan_check.h"

namespace holdfast::rendezvous {
namespace {

using enum SchedulableWorker::Availability;

// j1 trains with w1, j2 has a higher priority and needs two workers; w2 and w3 are free, w4 is taken.
struct Question {
  std::vector<SchedulableJob> jobs{{"j1", 1, 0, 1, 1, 2}, {"j2", 2, 1, 2, 2, 2}};
  std::vector<SchedulableWorker> workers{{"w1", kTaken, ""}, {"w2", kFree, ""}, {"w3", kFree, ""}, {"w4", kTaken, ""}};
  Plan plan{{{"w2", "j2"}, {"w3", "j2"}}, {}, {}, {}};
  Question() { jobs[0].workers = {"w1"}; }
};

void ends_with(const std::string& sentence, const std::function<void(Question&)>& spoil) {
  Question question;
  require_sound(question.jobs, question.workers, question.plan);
  spoil(question);
  EXPECT_DEATH(require_sound(question.jobs, question.workers, question.plan), "broken invariant: " + sentence);
}

TEST(PlanDeathTest, AWorkerIsDealtTwice) {
  ends_with("w2 is dealt twice", [](Question& q) { q.plan.assignments.push_back({"w2", "j1"}); });
}

TEST(PlanDeathTest, AWorkerThatIsNotFreeIsDealt) {
  ends_with("w4 is dealt to job j1, and it is not free", [](Question& q) { q.plan.assignments.push_back({"w4", "j1"}); });
  ends_with("w9 is dealt to job j1, and it is not free", [](Question& q) { q.plan.assignments.push_back({"w9", "j1"}); });
}

TEST(PlanDeathTest, AJobNobodyAskedAbout) {
  ends_with("the plan speaks of job j9", [](Question& q) { q.plan.assignments[0].job = "j9"; });
}

TEST(PlanDeathTest, AWorkerThatTheJobRefused) {
  ends_with("w2 is dealt to job j2, which refused it", [](Question& q) { q.jobs[1].refused["w2"] = "its data differs"; });
}

TEST(PlanDeathTest, AWorkerThatDoesNotFit) {
  ends_with("w2 is dealt to job j2, which requires others",
            [](Question& q) { q.jobs[1].unfit = std::make_shared<const std::set<std::string>>(std::set<std::string>{"w2"}); });
}

TEST(PlanDeathTest, AWorkerIsTakenFromAJobThatDoesNotHaveIt) {
  ends_with("w4 is taken from job j1, which does not have it", [](Question& q) { q.plan.taken_back = {{"w4", "j1", "", ""}}; });
}

TEST(PlanDeathTest, AJobIsPreemptedThatCannotBe) {
  ends_with("job j1 of priority 0 is preempted for j2 of priority 1", [](Question& q) {
    q.plan.preemptions = {{"j1", "j2", 1}};
  });
}

TEST(PlanDeathTest, AJobIsPreemptedInVain) {
  ends_with("job j1 is preempted for j2, which gets 1 of 2 workers", [](Question& q) {
    q.jobs[0].preemptible = true;
    q.plan.preemptions = {{"j1", "j2", 1}};
    q.plan.assignments.pop_back();
    q.plan.waiting["j2"] = {2, 1, 0, {}};
  });
}

TEST(PlanDeathTest, AJobGetsTooMany) {
  ends_with("job j2 gets 2 workers, and at most 1 are allowed",
            [](Question& q) { q.jobs[1].min_nodes = q.jobs[1].max_nodes = 1; });
}

TEST(PlanDeathTest, AJobWaitsAndNobodySaysSo) {
  ends_with("job j2 has 1 of 2 workers, and nobody says that it waits", [](Question& q) { q.plan.assignments.pop_back(); });
}

TEST(PlanDeathTest, AJobThatHasEnoughIsToldToWait) {
  ends_with("job j2 has 2 of 2 workers, and is told to wait", [](Question& q) { q.plan.waiting["j2"] = {2, 2, 0, {}}; });
}

}  // namespace
}  // namespace holdfast::rendezvous
