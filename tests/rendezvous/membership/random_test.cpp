// Random workers that die, freeze, join, leave and answer late: what must hold after every input.
//
// The workers are simulated: each follows what it is told, in its own time, or not at all. The seed is printed; run one
// again with --gtest_filter and HOLDFAST_SEED=n.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <set>

#include "tests/rendezvous/membership/story.h"

namespace holdfast::rendezvous {
namespace {

struct SimulatedWorker {
  int life = 1;
  bool frozen = false, leaving = false;
  WorkerStatus status;
};

class World {
 public:
  explicit World(unsigned seed) : random_(seed), story_(1 + static_cast<int64_t>(seed % 2)) {
    story_.job.spec.recovery = seed % 3 == 0 ? "checkpoint" : "memory";
    for (int i = 1; i <= 4; ++i) workers_[fmt::format("w{}", i)];
  }

  void act() {
    story_.now += pick(300);
    const std::string worker = fmt::format("w{}", 1 + pick(4));
    SimulatedWorker& w = workers_[worker];
    switch (pick(14)) {
      case 0:
        return kill(worker, w);
      case 1:
        w.frozen = !w.frozen;
        return;
      case 2:
        return fault(worker, w);
      case 3:
        return stale(worker, w);
      case 4:
        return checkpoint();
      case 5:
        story_.happens(Tick{});
        return check();
      case 6:
      case 7:
        return train();
      case 8:
        w.leaving |= pick(3) == 0;
        return;
      case 9:
        return scale();
      default:
        return obey(worker, w);
    }
  }

  void check() {
    const JobMembership& job = story_.job;
    std::set<std::string> seen;
    for (const Member& member : job.current.members)
      ASSERT_TRUE(seen.insert(member.worker).second) << "twice in one generation";
    ASSERT_GE(job.current.number, last_generation_);
    if (job.current.number == last_generation_ && last_generation_ > 0) {
      ASSERT_EQ(job.current.members, last_members_);
    }
    if (job.current.number > last_generation_) formed();
    last_generation_ = job.current.number;
    last_members_ = job.current.members;
    if (job.state == JobState::kRunning && job.stage == Stage::kRunning) {
      ASSERT_GE(static_cast<int64_t>(job.current.members.size()), job.min_nodes);
    }
  }

  // Nobody's directive changes unless the worker is named; so none has to look for it.
  void check_standings() {
    const std::vector<std::string> named = workers_to_notify(story_.job);
    std::map<std::string, std::string> told;
    for (const auto& [worker, p] : story_.job.participants) {
      const Directive d = directive_for(story_.job, worker);
      told[worker] = fmt::format("{} of {}, {} {} rank {} of {}: {}, {}", p.member.incarnation, d.job, directive_name(d.kind),
                                 d.generation, d.rank, d.members.size(), d.reason, d.checkpoint);
      const auto before = told_.find(worker);
      if (before != told_.end() && before->second == told[worker]) continue;
      ASSERT_TRUE(std::ranges::find(named, worker) != named.end())
          << worker << ": " << (before == told_.end() ? "nothing" : before->second) << " -> " << told[worker];
    }
    told_ = std::move(told);
  }

  // Everybody is well: the job must get on.
  void heal() {
    for (auto& [worker, w] : workers_) w.frozen = false;
    story_.job.max_nodes = 4;
    for (int round = 0; round < 400; ++round) {
      story_.now += 100;
      for (auto& [worker, w] : workers_) obey(worker, w);
      story_.happens(Tick{});
      check();
      train();
    }
  }

  int64_t committed() const { return story_.job.committed_step; }
  Story& story() { return story_; }

 private:
  unsigned pick(unsigned below) { return static_cast<unsigned>(random_() % below); }

  // A generation from memory starts at the furthest that any of its members holds, which one of them does hold; and none
  // starts below a checkpoint.
  void formed() {
    const JobMembership& job = story_.job;
    const StateSource& source = job.current.source;
    ASSERT_EQ(job.current.number, last_generation_ + 1);
    ASSERT_LE(static_cast<int64_t>(job.current.members.size()), job.max_nodes);
    for (const auto& [step, checkpoint] : job.checkpoints) ASSERT_GE(source.step, step);
    bool held = false;
    for (const Member& member : job.current.members) {
      const int64_t step = job.participants.at(member.worker).status.step;
      const bool of_this_history =
          before_lineage_.contains(member.incarnation) && before_lineage_[member.incarnation] == lineage_;
      held |= of_this_history && step == source.step;
      const bool may_be_ahead = !of_this_history || forsakes_memory();
      ASSERT_TRUE(step <= source.step || may_be_ahead) << member.worker << " holds a newer state of the same history";
    }
    ASSERT_TRUE(held || source.kind != StateSource::Kind::kMemory) << "no member holds step " << source.step;
    lineage_ = job.lineage;
    before_lineage_ = job.lineage_of;
  }

  bool forsakes_memory() const { return story_.job.spec.recovery == "checkpoint" && story_.job.cause == Cause::kFault; }

  void scale() {
    story_.job.max_nodes = story_.job.min_nodes + pick(5 - static_cast<unsigned>(story_.job.min_nodes));
    story_.happens(Tick{});
    check();
  }

  void kill(const std::string& worker, SimulatedWorker& w) {
    story_.happens(WorkerGone{worker, "killed"});
    w = SimulatedWorker{w.life + 1, false, false, {}};
    check();
  }

  void fault(const std::string& worker, const SimulatedWorker& w) {
    if (w.status.phase != Phase::kActive || w.frozen) return;
    FaultReport report = story_.fault(worker, static_cast<int>(pick(4)) - 1);
    report.incarnation = Story::life(worker, w.life);
    report.generation = w.status.generation;
    story_.happens(FaultReported{report});
    check();
  }

  // A message of a former life or generation: nothing may change but time.
  void stale(const std::string& worker, const SimulatedWorker& w) {
    story_.happens(Tick{});
    check();
    const int64_t committed = story_.job.committed_step, generation = story_.job.current.number;
    const Stage stage = story_.job.stage;
    Progress progress;
    progress.worker = worker;
    progress.incarnation = Story::life(worker, w.life - 1);
    progress.generation = generation;
    progress.step = committed + 100;
    story_.happens(ProgressMade{progress});
    progress.incarnation = Story::life(worker, w.life);
    progress.generation = generation - 1;
    story_.happens(ProgressMade{progress});
    ASSERT_EQ(story_.job.committed_step, committed);
    ASSERT_EQ(story_.job.stage, stage) << testing::PrintToString(story_.lines);
  }

  void obey(const std::string& worker, SimulatedWorker& w) {
    if (w.frozen) return;
    if (!story_.job.participants.contains(worker)) {
      if (w.leaving) w = SimulatedWorker{w.life + 1, false, false, {}};  // it ended, and another comes
      w.status = WorkerStatus{};
      story_.assigned(worker, "avx512", w.life);
      return check();
    }
    const Directive d = directive_for(story_.job, worker);
    w.status.incarnation = Story::life(worker, w.life);
    w.status.job = "j1";
    w.status.data_digest = "d1";
    w.status.reason.clear();
    w.status.leaving = w.leaving;
    if (d.kind == DirectiveKind::kPrepare && w.status.phase == Phase::kIdle) w.status.phase = Phase::kPrepared;
    if (d.kind == DirectiveKind::kJoin && w.status.phase == Phase::kPrepared && w.status.generation < d.generation) join(w, d);
    if (d.kind == DirectiveKind::kFence || d.kind == DirectiveKind::kYield) {
      if (w.status.phase == Phase::kIdle) return;  // has nothing prepared: such a directive is not for it
      if (d.kind == DirectiveKind::kFence) w.status.reason = "fenced";
      w.status.phase = Phase::kPrepared;
      w.status.generation = std::max(w.status.generation, d.generation);
    }
    reports({worker, w.status});
    check();
  }

  // As the service does it. A heartbeat would have decided nothing, but for what is due by time alone.
  void reports(const WorkerReported& report) {
    const JobMembership before = story_.job;
    if (!take_heartbeat(story_.job, report, story_.now)) return story_.happens(report);
    const auto secret = [] { return std::string(64, 'a'); };
    const Decision due = decide(before, Tick{.judges = false}, story_.now, secret);
    if (!due.effects.empty() || due.state.stage != before.stage) return;
    const Decision heard = decide(due.state, report, story_.now, secret);
    ASSERT_TRUE(heard.effects.empty()) << std::visit([](const auto& e) { return Story::text(e); }, heard.effects.front());
    ASSERT_EQ(heard.state.stage, before.stage);
    ASSERT_EQ(heard.state.participants.size(), story_.job.participants.size());
    for (const auto& [worker, p] : heard.state.participants) {
      const Participant& taken = story_.job.participants.at(worker);
      ASSERT_EQ(taken.status, p.status) << worker;
      ASSERT_EQ(taken.heard_ms, p.heard_ms) << worker;
      ASSERT_EQ(taken.asked_ms, p.asked_ms) << worker;
      ASSERT_EQ(taken.prepared_ms, p.prepared_ms) << worker;
    }
  }

  void join(SimulatedWorker& w, const Directive& d) {
    w.status.phase = Phase::kActive;
    w.status.generation = d.generation;
    w.status.step = d.source.step;
  }

  // One step, when every member is active and awake. Now and then the last one applies it and nobody lives to report it.
  void train() {
    const Generation& g = story_.job.current;
    for (const Member& member : g.members) {
      const SimulatedWorker& w = workers_[member.worker];
      const bool there = member.incarnation == Story::life(member.worker, w.life) && !w.frozen &&
                         w.status.phase == Phase::kActive && w.status.generation == g.number;
      if (!there) return;
    }
    if (g.members.empty()) return;
    for (const Member& member : g.members) ++workers_[member.worker].status.step;
    const int64_t step = workers_[g.members[0].worker].status.step;
    if (pick(4) != 0) story_.progress(step);
    check();
  }

  void checkpoint() {
    if (story_.job.current.number == 0 || story_.job.committed_step == 0 || story_.job.stage != Stage::kRunning) return;
    const Member& first = story_.job.current.members[0];
    const SimulatedWorker& w = workers_[first.worker];
    if (w.status.phase == Phase::kActive && w.status.generation == story_.job.current.number && w.status.step > 0) {
      story_.checkpoint(std::min(w.status.step, story_.job.committed_step));
    }
    check();
  }

  std::mt19937 random_;
  Story story_;
  std::map<std::string, SimulatedWorker> workers_;
  int64_t last_generation_ = 0, lineage_ = 0;
  std::vector<Member> last_members_;
  std::map<std::string, int64_t> before_lineage_;
  std::map<std::string, std::string> told_;  // at the last look at standings
};

TEST(RandomLives, KeepThePromisesAndAlwaysRecover) {
  const char* chosen = std::getenv("HOLDFAST_SEED");
  const unsigned first = chosen != nullptr ? static_cast<unsigned>(std::atoi(chosen)) : 1;
  const unsigned last = chosen != nullptr ? first : 100;
  for (unsigned seed = first; seed <= last; ++seed) {
    SCOPED_TRACE(fmt::format("HOLDFAST_SEED={}", seed));
    World world(seed);
    for (int i = 0; i < 400 && !testing::Test::HasFatalFailure(); ++i) {
      world.act();
      world.check_standings();
    }
    if (testing::Test::HasFatalFailure()) return;
    const int64_t before = world.committed();
    world.heal();
    ASSERT_FALSE(testing::Test::HasFatalFailure());
    ASSERT_GT(world.committed(), before) << "no progress";
    ASSERT_EQ(world.story().job.stage, Stage::kRunning);
  }
}

}  // namespace
}  // namespace holdfast::rendezvous
