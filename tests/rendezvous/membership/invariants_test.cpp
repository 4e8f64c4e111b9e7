// A decision that breaks a promise ends the process, with what was broken.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>

#include "rendezvous/membership/invariants.h"
#include "tests/rendezvous/membership/story.h"

namespace holdfast::rendezvous {
namespace {

// The decision in which generation 2 forms of w1 and w2, at step 41 and from memory.
struct Formation {
  Beforehand before;
  Decision decision;
};
Formation sound_formation() {
  Story story = running({"w1", "w2", "w3"}, 41);
  story.happens(WorkerGone{"w3", "killed"});
  story.says("w1", Phase::kPrepared, 1, 41);
  Beforehand before(story.job);
  const Input last = WorkerReported{"w2", story.status("w2", Phase::kPrepared, 1, 41)};
  return {std::move(before), decide(story.job, last, story.now, [] { return std::string("secret"); })};
}

void ends_with(const std::string& sentence, const std::function<void(Formation&)>& spoil) {
  Formation formation = sound_formation();
  require_sound(formation.before, formation.decision);
  spoil(formation);
  EXPECT_DEATH(require_sound(formation.before, formation.decision), "broken invariant: " + sentence + ".*This is a bug");
}

TEST(DecisionDeathTest, ANumberIsUsedAgain) {
  ends_with("generation 2 of job j1 forms after generation 2", [](Formation& f) { f.before.generation = 2; });
}

TEST(DecisionDeathTest, AGenerationIsNotWrittenDown) {
  ends_with("job j1 is at generation 2, and what is written down is generation 1",
            [](Formation& f) { f.decision.effects.clear(); });
}

TEST(DecisionDeathTest, TwoRanksAreOfOneWorker) {
  ends_with("generation 2 of job j1 has w1 twice",
            [](Formation& f) { f.decision.state.current.members[1] = f.decision.state.current.members[0]; });
}

TEST(DecisionDeathTest, AMemberIsNotOfTheJob) {
  ends_with("generation 2 of job j1 has w2-1, which is not of the job",
            [](Formation& f) { f.decision.state.participants.erase("w2"); });
}

TEST(DecisionDeathTest, RanksAreNotDense) {
  ends_with("generation 2 of job j1 has w2 as rank 1, and its seat is 2",
            [](Formation& f) { f.decision.state.participants.at("w2").seat = 2; });
}

TEST(DecisionDeathTest, AGenerationIsTooSmall) {
  ends_with("generation 2 of job j1 has 2 members, and 3 to 8 are allowed",
            [](Formation& f) { f.decision.state.min_nodes = 3; });
}

TEST(DecisionDeathTest, AGenerationChangesItsMembers) {
  ends_with("generation 2 of job j1 has other members than when it formed", [](Formation& f) {
    f.before.generation = 2;
    f.decision.effects.clear();
  });
}

TEST(DecisionDeathTest, TheCommittedStepGoesDownAndNothingIsVoided) {
  ends_with("job j1 goes back from step 42 to 41, and nothing is voided", [](Formation& f) { f.before.committed_step = 42; });
}

TEST(DecisionDeathTest, AStepIsCommittedTwice) {
  ends_with("steps 41 to 41 of job j1 are committed, and step 41 was before", [](Formation& f) {
    f.decision.effects.emplace_back(StepsCommitted{2, 41, 41});
  });
}

TEST(DecisionDeathTest, AGenerationBeginsElsewhereThanAtTheCommittedStep) {
  ends_with("generation 2 of job j1 begins at step 41, and the job is at step 42",
            [](Formation& f) { f.decision.state.committed_step = 42; });
}

TEST(DecisionDeathTest, AGenerationBeginsFromACheckpointThatIsNotThere) {
  ends_with("generation 2 of job j1 is to begin from the checkpoint of step 41, which cannot be read", [](Formation& f) {
    f.decision.state.current.source.kind = StateSource::Kind::kCheckpoint;
    f.decision.state.current.source.job = "j1";
  });
}

TEST(DecisionDeathTest, AJobThatHasEndedGoesOn) {
  ends_with("job j1 was cancelled and is running", [](Formation& f) { f.before.state = JobState::kCancelled; });
}

TEST(DecisionDeathTest, AJobThatEndsKeepsItsWorkers) {
  ends_with("job j1 is failed and keeps 2 workers", [](Formation& f) {
    f.decision.state.state = JobState::kFailed;
    f.decision.state.stage = Stage::kForming;
  });
}

TEST(DecisionDeathTest, AGenerationIsAliveInAJobThatWaits) {
  ends_with("job j1 is waiting, and its generation 2 of 2 members is running",
            [](Formation& f) { f.decision.state.state = JobState::kWaiting; });
}

}  // namespace
}  // namespace holdfast::rendezvous
