// The lifecycle as transcripts: what comes in, what the train thread is told, what is reported.
#include "worker/process/lifecycle.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

namespace holdfast::worker {
namespace {

using rendezvous::Directive;
using rendezvous::DirectiveKind;
using rendezvous::ProfileOrder;

std::string words(const Command& command) {
  struct Words {
    std::string operator()(const StartPrepare& c) { return "prepare " + c.job; }
    std::string operator()(const StartRun& c) { return fmt::format("run {}/{}", c.join.job, c.join.generation); }
    std::string operator()(const StartRelease&) { return "release"; }
    std::string operator()(const RecordProfile& c) { return c.order ? "record " + c.order->id : "record nothing"; }
    std::string operator()(const AskYield& c) {
      return std::string("yield") + (c.checkpoint ? " with checkpoint" : "") + (c.leaving ? " leaving" : "");
    }
    std::string operator()(const InterruptTrain& c) { return "interrupt (" + c.reason + ")"; }
    std::string operator()(const ExitProcess& c) { return "end (" + c.reason + ")"; }
  };
  return std::visit(Words{}, command);
}

// "commands; … -> phase job/generation step N"
class Machine {
 public:
  std::string after(const Input& input) {
    std::string text;
    for (const Command& command : advance(state, input)) text += (text.empty() ? "" : "; ") + words(command);
    return (text.empty() ? "-" : text) + " -> " + status();
  }
  std::string told(DirectiveKind kind, const std::string& job = "j1", int64_t generation = 0, bool checkpoint = false) {
    Directive directive;
    directive.kind = kind;
    directive.job = kind == DirectiveKind::kIdle || kind == DirectiveKind::kExit ? "" : job;
    directive.generation = generation;
    directive.checkpoint = checkpoint;
    if (kind == DirectiveKind::kPrepare || kind == DirectiveKind::kJoin) directive.spec.emplace();
    return after(DirectiveReceived{directive});
  }
  std::string prepared() { return after(PrepareEnded{PrepareEnded::How::kPrepared, "", "digest", 1000}); }
  std::string status() const {
    const auto s = status_of(state, "i1");
    return fmt::format("{}{}{}{}", phase_name(s.phase),
                       s.job.empty() ? "" : fmt::format(" {}/{} step {}", s.job, s.generation, s.step),
                       s.leaving ? " leaving" : "", s.reason.empty() ? "" : " (" + s.reason + ")");
  }

  Lifecycle state;
};

Machine running(int64_t generation) {
  Machine m;
  m.told(DirectiveKind::kPrepare);
  m.prepared();
  m.told(DirectiveKind::kJoin, "j1", generation);
  m.after(Joined{0});
  return m;
}

TEST(Lifecycle, AJobFromItsBeginningToItsEnd) {
  Machine m;
  EXPECT_EQ(m.status(), "idle");
  EXPECT_EQ(m.told(DirectiveKind::kPrepare), "prepare j1 -> preparing j1/0 step -1");
  EXPECT_EQ(m.prepared(), "- -> prepared j1/0 step -1");
  EXPECT_EQ(m.told(DirectiveKind::kJoin, "j1", 1), "run j1/1 -> prepared j1/0 step -1");
  EXPECT_EQ(m.after(Joined{0}), "- -> active j1/1 step 0");
  EXPECT_EQ(m.after(StepCommitted{1}), "- -> active j1/1 step 1");
  EXPECT_EQ(m.told(DirectiveKind::kIdle), "interrupt (idle) -> active j1/1 step 1");
  EXPECT_EQ(m.after(RunEnded{1, "idle"}), "release -> idle") << "what is being given up is not there to build on";
  EXPECT_EQ(m.after(Released{}), "- -> idle");
}

TEST(Lifecycle, ARefusalIsReportedUntilTheServiceTakesTheJobAway) {
  Machine m;
  m.told(DirectiveKind::kPrepare);
  EXPECT_EQ(m.after(PrepareEnded{PrepareEnded::How::kRefused, "no such file", "", 0}),
            "- -> refused j1/0 step -1 (no such file)");
  EXPECT_EQ(m.told(DirectiveKind::kPrepare), "- -> refused j1/0 step -1 (no such file)");
  EXPECT_EQ(m.told(DirectiveKind::kIdle), "- -> idle");
}

TEST(Lifecycle, AFenceInterruptsTheGenerationAndKeepsTheState) {
  Machine m = running(3);
  m.after(StepCommitted{7});
  EXPECT_EQ(m.told(DirectiveKind::kFence, "j1", 3), "interrupt (fence) -> active j1/3 step 7");
  EXPECT_EQ(m.told(DirectiveKind::kFence, "j1", 3), "- -> active j1/3 step 7");
  EXPECT_EQ(m.after(RunEnded{8, "fence"}), "- -> prepared j1/3 step 8 (fence)");
  EXPECT_EQ(m.told(DirectiveKind::kJoin, "j1", 4), "run j1/4 -> prepared j1/3 step 8 (fence)");
  EXPECT_EQ(m.after(Joined{8}), "- -> active j1/4 step 8");
}

TEST(Lifecycle, TheStatusSaysOfWhichGenerationTheStateIs) {
  const auto of = [](const Machine& m) { return status_of(m.state, "i1").state_generation; };
  Machine m = running(3);
  EXPECT_EQ(of(m), 3);
  m.after(RunEnded{8, "connection lost"});
  m.told(DirectiveKind::kJoin, "j1", 4);
  m.after(RunEnded{8, "no ring"});
  EXPECT_EQ(of(m), 3) << "it was fenced before it took anything of generation 4";
  m.told(DirectiveKind::kJoin, "j1", 5);
  m.after(RunEnded{12, "connection lost"});
  EXPECT_EQ(of(m), 5) << "it had copied the state, and the ring broke before all had said so";
  m.told(DirectiveKind::kIdle);
  m.after(Released{});
  EXPECT_EQ(of(m), 0);
}

TEST(Lifecycle, AProfileIsRecordedOnceAndForTheGenerationThatRuns) {
  Machine m = running(3);
  Directive join = m.state.wanted;
  join.profile = ProfileOrder{"p1", 10, 20, 1000};
  EXPECT_EQ(m.after(DirectiveReceived{join}), "record p1 -> active j1/3 step 0");
  EXPECT_EQ(m.after(DirectiveReceived{join}), "- -> active j1/3 step 0");
  join.profile.reset();
  EXPECT_EQ(m.after(DirectiveReceived{join}), "record nothing -> active j1/3 step 0");
  m.told(DirectiveKind::kFence, "j1", 3);
  m.after(RunEnded{8, "fence"});
  join.generation = 4;
  join.profile = ProfileOrder{"p2", 10, 20, 1000};
  EXPECT_EQ(m.after(DirectiveReceived{join}), "run j1/4; record p2 -> prepared j1/3 step 8 (fence)");
}

TEST(Lifecycle, AFenceOfThePastChangesNothing) {
  Machine m = running(3);
  EXPECT_EQ(m.told(DirectiveKind::kFence, "j1", 2), "- -> active j1/3 step 0");
  EXPECT_EQ(m.told(DirectiveKind::kYield, "j1", 2), "- -> active j1/3 step 0");
}

TEST(Lifecycle, AfterAFaultOfItsOwnItWaitsForTheNextGenerationAndNeverRejoinsTheOld) {
  Machine m = running(3);
  EXPECT_EQ(m.after(RunEnded{5, "connection to rank 1 was reset"}),
            "- -> prepared j1/3 step 5 (connection to rank 1 was reset)");
  EXPECT_EQ(m.told(DirectiveKind::kJoin, "j1", 3), "- -> prepared j1/3 step 5 (connection to rank 1 was reset)");
  EXPECT_EQ(m.told(DirectiveKind::kFence, "j1", 3), "- -> prepared j1/3 step 5 (connection to rank 1 was reset)");
  EXPECT_EQ(m.told(DirectiveKind::kJoin, "j1", 4), "run j1/4 -> prepared j1/3 step 5 (connection to rank 1 was reset)");
}

TEST(Lifecycle, AFenceWhileJoiningEndsTheJoining) {
  Machine m;
  m.told(DirectiveKind::kPrepare);
  m.prepared();
  m.told(DirectiveKind::kJoin, "j1", 2);
  EXPECT_EQ(m.told(DirectiveKind::kFence, "j1", 2), "interrupt (fence) -> prepared j1/0 step -1");
  EXPECT_EQ(m.after(RunEnded{-1, "fence"}), "- -> prepared j1/2 step -1 (fence)");
}

TEST(Lifecycle, AFenceReachesAWorkerThatNeverSawTheJoin) {
  Machine m;
  m.told(DirectiveKind::kPrepare);
  m.prepared();
  EXPECT_EQ(m.told(DirectiveKind::kFence, "j1", 2), "- -> prepared j1/2 step -1");
  EXPECT_EQ(m.told(DirectiveKind::kJoin, "j1", 2), "- -> prepared j1/2 step -1");
}

TEST(Lifecycle, AYieldIsAskedOnceAndCanBecomeOneWithACheckpoint) {
  Machine m = running(1);
  EXPECT_EQ(m.told(DirectiveKind::kYield, "j1", 1), "yield -> active j1/1 step 0");
  EXPECT_EQ(m.told(DirectiveKind::kYield, "j1", 1), "- -> active j1/1 step 0");
  EXPECT_EQ(m.told(DirectiveKind::kYield, "j1", 1, true), "yield with checkpoint -> active j1/1 step 0");
  EXPECT_EQ(m.after(RunEnded{4, ""}), "- -> prepared j1/1 step 4");
}

TEST(Lifecycle, AYieldThatTakesTooLongBecomesAFence) {
  Machine m = running(1);
  m.told(DirectiveKind::kYield, "j1", 1);
  EXPECT_EQ(m.told(DirectiveKind::kFence, "j1", 1), "interrupt (fence) -> active j1/1 step 0");
}

TEST(Lifecycle, AWorkerLeftOutStopsAndMayComeBack) {
  Machine m = running(1);
  EXPECT_EQ(m.told(DirectiveKind::kPrepare), "interrupt (prepare) -> active j1/1 step 0");
  EXPECT_EQ(m.after(RunEnded{2, "prepare"}), "- -> prepared j1/1 step 2 (prepare)");
  EXPECT_EQ(m.told(DirectiveKind::kJoin, "j1", 3), "run j1/3 -> prepared j1/1 step 2 (prepare)");
}

TEST(Lifecycle, AnotherJobReplacesTheOneThatIsHeld) {
  Machine m = running(1);
  EXPECT_EQ(m.told(DirectiveKind::kPrepare, "j2"), "interrupt (prepare) -> active j1/1 step 0");
  EXPECT_EQ(m.after(RunEnded{2, "prepare"}), "prepare j2 -> preparing j2/0 step -1");
  EXPECT_EQ(m.told(DirectiveKind::kPrepare, "j3"), "interrupt (prepare) -> preparing j2/0 step -1");
  EXPECT_EQ(m.after(PrepareEnded{PrepareEnded::How::kInterrupted, "prepare", "", 0}), "prepare j3 -> preparing j3/0 step -1");
}

TEST(Lifecycle, AnotherJobOfTheSameIdReplacesTheOneThatIsHeld) {
  Machine m;
  Directive directive;
  directive.kind = DirectiveKind::kPrepare;
  directive.job = "j1";
  directive.job_born = 1000;
  directive.spec.emplace();
  m.after(DirectiveReceived{directive});
  m.prepared();
  EXPECT_EQ(status_of(m.state, "i1").job_born, 1000);
  EXPECT_EQ(m.after(DirectiveReceived{directive}), "- -> prepared j1/0 step -1");
  directive.job_born = 2000;
  EXPECT_EQ(m.after(DirectiveReceived{directive}), "prepare j1 -> preparing j1/0 step -1");
  EXPECT_EQ(status_of(m.state, "i1").job_born, 2000);
}

TEST(Lifecycle, AJoinOfAJobThatIsNotHeldPreparesFirst) {
  Machine m;
  EXPECT_EQ(m.told(DirectiveKind::kJoin, "j1", 5), "prepare j1 -> preparing j1/0 step -1");
  EXPECT_EQ(m.prepared(), "run j1/5 -> prepared j1/0 step -1");
}

TEST(Lifecycle, AJobThatWasGivenUpIsTakenUpAgainAboveTheGenerationsOfThatTime) {
  Machine m = running(3);
  m.told(DirectiveKind::kIdle);
  m.after(RunEnded{9, "idle"});
  EXPECT_EQ(m.after(Released{}), "- -> idle");
  // The service's database was put back from a copy of the time of generation 3.
  EXPECT_EQ(m.told(DirectiveKind::kJoin, "j1", 3), "prepare j1 -> preparing j1/3 step -1");
  EXPECT_EQ(m.prepared(), "- -> prepared j1/3 step -1") << "it has no part in generation 3 any more, and says so";
  EXPECT_EQ(m.told(DirectiveKind::kJoin, "j1", 4), "run j1/4 -> prepared j1/3 step -1");
}

TEST(Lifecycle, AGenerationThatWasFoundAtWorkIsSpokenOf) {
  Machine m = running(3);
  m.after(StepCommitted{40});
  EXPECT_EQ(m.after(RunEnded{40, "generation 7 has written the checkpoint of step 40", 7}),
            "- -> prepared j1/7 step 40 (generation 7 has written the checkpoint of step 40)");
  EXPECT_EQ(status_of(m.state, "i1").state_generation, 3);
  EXPECT_EQ(m.told(DirectiveKind::kJoin, "j1", 8).substr(0, 8), "run j1/8");
}

TEST(Lifecycle, TerminationHandsOverAfterTheStepAndEndsWhenGranted) {
  Machine m = running(1);
  EXPECT_EQ(m.after(TerminationAsked{}), "yield leaving -> active j1/1 step 0 leaving");
  EXPECT_EQ(m.told(DirectiveKind::kYield, "j1", 1, true), "yield with checkpoint leaving -> active j1/1 step 0 leaving");
  EXPECT_EQ(m.after(RunEnded{9, ""}), "- -> prepared j1/1 step 9 leaving");
  EXPECT_EQ(m.told(DirectiveKind::kExit), "end (exit) -> prepared j1/1 step 9 leaving");
  EXPECT_EQ(m.told(DirectiveKind::kPrepare, "j2"), "- -> prepared j1/1 step 9 leaving");
}

TEST(Lifecycle, AWorkerThatLeavesPreparesNothingNew) {
  Machine m;
  m.told(DirectiveKind::kPrepare);
  EXPECT_EQ(m.after(TerminationAsked{}), "interrupt (leaving) -> preparing j1/0 step -1 leaving");
  EXPECT_EQ(m.after(PrepareEnded{PrepareEnded::How::kInterrupted, "leaving", "", 0}), "- -> idle leaving");
  EXPECT_EQ(m.told(DirectiveKind::kPrepare), "- -> idle leaving");
}

TEST(Lifecycle, NobodyToGrantTheTerminationEndsItAfterTheGraceButNotDuringAStep) {
  Machine m = running(1);
  m.after(TerminationAsked{});
  EXPECT_EQ(m.after(GraceOver{}), "- -> active j1/1 step 0 leaving");
  m.after(RunEnded{1, ""});
  EXPECT_EQ(m.after(GraceOver{}), "end (nobody granted the termination in time) -> prepared j1/1 step 1 leaving");
}

TEST(Lifecycle, ADrainedWorkerStopsThenEnds) {
  Machine m = running(1);
  EXPECT_EQ(m.told(DirectiveKind::kExit), "interrupt (exit) -> active j1/1 step 0");
  EXPECT_EQ(m.after(RunEnded{1, "exit"}), "end (exit) -> prepared j1/1 step 1 (exit)");
}

// --- a walk through anything the service and the train thread could do

class Walk {
 public:
  explicit Walk(uint32_t seed) : random_(seed) {}

  void take_step() {
    Input input = roll(4) == 0 && m_.state.activity != Lifecycle::Activity::kNone ? train_thread() : outside();
    const auto before = status_of(m_.state, "i");
    const bool was_exiting = m_.state.exiting;
    const bool rest_before = m_.state.activity == Lifecycle::Activity::kNone || ends_activity(input);
    const auto commands = advance(m_.state, input);
    check(commands, rest_before, was_exiting);
    const auto now = status_of(m_.state, "i");
    if (now.job == before.job && !now.job.empty() && before.phase != rendezvous::Phase::kPreparing &&
        now.phase != rendezvous::Phase::kPreparing) {
      EXPECT_GE(now.generation, before.generation) << "a generation only ever grows";
    }
  }

 private:
  uint32_t roll(uint32_t n) { return std::uniform_int_distribution<uint32_t>(0, n - 1)(random_); }

  static bool ends_activity(const Input& input) {
    return std::holds_alternative<PrepareEnded>(input) || std::holds_alternative<RunEnded>(input) ||
           std::holds_alternative<Released>(input);
  }

  Input outside() {
    if (roll(200) == 0) return TerminationAsked{};
    if (roll(200) == 0) return GraceOver{};
    Directive d;
    d.kind = static_cast<DirectiveKind>(roll(roll(20) == 0 ? 6 : 5));
    d.job = roll(5) == 0 ? "j2" : "j1";
    d.generation = generation_ += roll(2);
    if (roll(6) == 0) d.generation -= 1;
    d.checkpoint = roll(2) == 0;
    d.reason = "r";
    d.spec.emplace();
    return DirectiveReceived{d};
  }

  Input train_thread() {
    switch (m_.state.activity) {
      case Lifecycle::Activity::kPreparing:
        return PrepareEnded{static_cast<PrepareEnded::How>(roll(3)), "why", "digest", 5};
      case Lifecycle::Activity::kRunning:
        if (!m_.state.joined && roll(2) == 0) return Joined{static_cast<int64_t>(roll(10))};
        if (m_.state.joined && roll(2) == 0) return StepCommitted{m_.state.step + 1};
        return RunEnded{m_.state.step, roll(2) == 0 ? "" : "fault"};
      default:
        return Released{};
    }
  }

  void check(const std::vector<Command>& commands, bool rest_before, bool was_exiting) {
    int starts = 0;
    for (const Command& command : commands) {
      EXPECT_FALSE(was_exiting) << "nothing is started after the end";
      if (const auto* run = std::get_if<StartRun>(&command)) {
        EXPECT_GT(run->join.generation, m_.state.fenced) << "a fenced generation is never joined";
      }
      const bool start = std::holds_alternative<StartRun>(command) || std::holds_alternative<StartPrepare>(command) ||
                         std::holds_alternative<StartRelease>(command);
      starts += start ? 1 : 0;
      EXPECT_TRUE(!start || rest_before) << "one activity at a time";
      EXPECT_TRUE(!std::holds_alternative<ExitProcess>(command) || rest_before);
      EXPECT_TRUE(!std::holds_alternative<InterruptTrain>(command) || m_.state.interrupted);
    }
    EXPECT_LE(starts, 1);
  }

  std::minstd_rand random_;
  Machine m_;
  int64_t generation_ = 1;
};

TEST(Lifecycle, KeepsItsPromisesOnAnyWalk) {
  for (uint32_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}: --gtest_filter=Lifecycle.KeepsItsPromisesOnAnyWalk", seed));
    Walk walk(seed);
    for (int i = 0; i < 400 && !::testing::Test::HasFailure(); ++i) walk.take_step();
    if (::testing::Test::HasFailure()) return;
  }
}

// Whatever happened before, a worker that is told to be idle becomes idle once the train thread is through.
TEST(Lifecycle, SettlesWhereTheServiceWantsIt) {
  for (const auto kind : {DirectiveKind::kIdle, DirectiveKind::kExit}) {
    Machine m = running(1);
    m.told(kind);
    m.after(RunEnded{3, "told"});
    if (m.state.activity == Lifecycle::Activity::kReleasing) m.after(Released{});
    EXPECT_EQ(kind == DirectiveKind::kExit, m.state.exiting);
    EXPECT_EQ(kind == DirectiveKind::kIdle, m.state.job.empty());
  }
}

Directive divided(DirectiveKind kind, const std::string& shard, int64_t generation = 0) {
  Directive directive;
  directive.kind = kind;
  directive.job = "j1";
  directive.generation = generation;
  directive.spec.emplace();
  directive.spec->shard = shard;
  return directive;
}

TEST(Lifecycle, AWorkerPreparesAnewForAnotherDivisionOfTheState) {
  Machine m;
  EXPECT_EQ(m.after(DirectiveReceived{divided(DirectiveKind::kPrepare, "none")}), "prepare j1 -> preparing j1/0 step -1");
  m.prepared();
  EXPECT_EQ(m.after(DirectiveReceived{divided(DirectiveKind::kPrepare, "none")}), "- -> prepared j1/0 step -1");
  EXPECT_EQ(m.after(DirectiveReceived{divided(DirectiveKind::kPrepare, "optimizer")}), "prepare j1 -> preparing j1/0 step -1");
  EXPECT_EQ(m.after(DirectiveReceived{divided(DirectiveKind::kPrepare, "parameters")}),
            "interrupt (prepare) -> preparing j1/0 step -1");
  EXPECT_EQ(m.after(PrepareEnded{PrepareEnded::How::kInterrupted, "", "", 0}), "prepare j1 -> preparing j1/0 step -1");
  m.prepared();
  EXPECT_EQ(m.after(DirectiveReceived{divided(DirectiveKind::kJoin, "none", 1)}), "prepare j1 -> preparing j1/0 step -1")
      << "a generation that formed before this worker was told";
  EXPECT_EQ(m.prepared(), "run j1/1 -> prepared j1/0 step -1");
}

}  // namespace
}  // namespace holdfast::worker
