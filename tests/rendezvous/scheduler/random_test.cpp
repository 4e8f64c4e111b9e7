// Random jobs and workers: plans are carried out in random order until nothing changes, and then what the rule promises must
// hold. The seed is printed; run one again with --gtest_filter and HOLDFAST_SEED=n.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <utility>

#include "rendezvous/scheduler/schedule.h"

namespace holdfast::rendezvous {
namespace {

using Availability = SchedulableWorker::Availability;

class Cluster {
 public:
  explicit Cluster(unsigned seed) : random_(seed) {
    const int count = 1 + pick(8);
    const bool unlike = pick(2) == 0;
    for (int i = 1; i <= count; ++i) {
      workers_.push_back({fmt::format("w{}", i), Availability::kFree, ""});
      workers_.back().numerics = unlike && pick(2) == 0 ? "avx2" : "avx512";
    }
  }

  int pick(int below) { return static_cast<int>(random_() % static_cast<unsigned>(below)); }
  int64_t workers() const { return static_cast<int64_t>(workers_.size()); }
  std::vector<SchedulableJob>& jobs() { return jobs_; }
  void pass(int64_t ms) { now_ms_ += ms; }

  SchedulableJob& submit(int64_t priority, int64_t min, int64_t nodes, int64_t max) {
    SchedulableJob& job = jobs_.emplace_back();
    job.number = ++submitted_;
    job.id = fmt::format("j{}", job.number);
    job.priority = priority;
    job.min_nodes = min;
    job.nodes = nodes;
    job.max_nodes = max;
    return job;
  }
  void submit_any() {
    const int64_t min = 1 + pick(4), nodes = min + pick(3);
    SchedulableJob& job = submit(pick(3), min, nodes, nodes + pick(4));
    std::set<std::string> unfit, unlike;
    for (const SchedulableWorker& worker : workers_) {
      const int chance = pick(16);
      if (chance == 0) job.refused[worker.id] = "its data differs";
      if (chance == 1) unfit.insert(worker.id);
      if (chance == 2) unlike.insert(worker.id);
      if (chance == 3) job.doubtful.insert(worker.id);
    }
    job.unfit = std::make_shared<const std::set<std::string>>(std::move(unfit));
    job.unlike = std::make_shared<const std::set<std::string>>(std::move(unlike));
    job.alike = pick(4) == 0;
  }
  // Workers that came and went too often, and ones whose memory a job that waits lives from.
  void change_any() {
    for (SchedulableWorker& worker : workers_) worker.held_back = pick(8) == 0;
    for (SchedulableJob& job : jobs_) {
      job.holders.clear();
      for (const std::string& worker : job.workers) {
        if (!runs(job) && pick(4) == 0) job.holders.push_back(worker);
      }
    }
  }
  void end_any() {
    if (jobs_.empty()) return;
    end(jobs_[static_cast<size_t>(pick(static_cast<int>(jobs_.size())))].id);
  }
  void end(const std::string& id) {
    for (const std::string& worker : job(id).workers) of(worker).availability = Availability::kFree;
    std::erase_if(jobs_, [&](const SchedulableJob& job) { return job.id == id; });
  }

  SchedulableJob& job(const std::string& id) { return *std::ranges::find(jobs_, id, &SchedulableJob::id); }
  bool runs(const SchedulableJob& job) const { return static_cast<int64_t>(job.workers.size()) >= job.min_nodes; }

  // A plan, carried out; some of those who were on the way arrive. Whether anything happened.
  bool round() {
    bool changed = arrive();
    const Plan plan = schedule(jobs_, workers_, now_ms_);
    for (const Preemption& p : plan.preemptions) preempt(p);
    for (const TakenBack& t : plan.taken_back) take_back(t);
    for (const Assignment& a : plan.assignments) assign(a);
    for (const Assignment& a : plan.assignments) check_nominal(a, plan);
    for (SchedulableJob& job : jobs_) {
      if (!plan.waiting.contains(job.id)) job.waits_since_ms.reset();
      if (plan.waiting.contains(job.id) && !job.waits_since_ms) job.waits_since_ms = now_ms_;
      job.training = job.preemptible = runs(job);
      if (runs(job)) begin(job);
    }
    return changed || !plan.preemptions.empty() || !plan.taken_back.empty() || !plan.assignments.empty();
  }
  // Until nothing changes.
  void settle() {
    for (int rounds = 0; round(); ++rounds) {
      ASSERT_LT(rounds, 200) << "it does not come to rest: " << text();
      if (testing::Test::HasFatalFailure()) return;
    }
  }

  void check() {
    for (const SchedulableJob& job : jobs_) {
      ASSERT_LE(static_cast<int64_t>(job.workers.size()), job.max_nodes) << text();
      for (const std::string& worker : job.workers) {
        ASSERT_TRUE(fits(worker, job)) << worker << text();
        ASSERT_TRUE(!job.alike || of(worker).numerics == of(job.workers[0]).numerics) << job.id << " has unlike ones" << text();
      }
    }
    for (const SchedulableJob& a : jobs_) {
      for (const SchedulableJob& b : jobs_) check_pair(a, b);
      check_beginning(a);
    }
    for (const auto& [victim, by] : preempted_) {
      ASSERT_TRUE(std::ranges::any_of(by, [&](const std::string& id) { return began(id); }))
          << victim << " was preempted for " << by[0] << text();
    }
    preempted_.clear();
  }

  int64_t preemptions() const { return preemptions_; }
  std::string text() const {
    std::string text;
    for (const SchedulableJob& job : jobs_)
      text += fmt::format("\n{} priority {} ({}, {}, {}) has {}", job.id, job.priority, job.min_nodes, job.nodes, job.max_nodes,
                          fmt::join(job.workers, " "));
    return text;
  }

 private:
  SchedulableWorker& of(const std::string& worker) { return *std::ranges::find(workers_, worker, &SchedulableWorker::id); }
  static bool fits(const std::string& worker, const SchedulableJob& job) {
    return !job.refused.contains(worker) && (job.unfit == nullptr || !job.unfit->contains(worker));
  }
  static bool is_doubtful(const std::string& worker, const SchedulableJob& job) {
    return job.doubtful.contains(worker) || (job.unlike != nullptr && job.unlike->contains(worker));
  }
  static bool comes_before(const SchedulableJob& a, const SchedulableJob& b) {
    return a.priority > b.priority || (a.priority == b.priority && a.number < b.number);
  }
  // Nobody is disturbed for `job` to have this worker: one that comes first and has waited for long would get it.
  bool is_kept_from(const SchedulableJob& job, const std::string& worker) const {
    return std::ranges::any_of(jobs_, [&](const SchedulableJob& other) {
      const bool waits_long = other.waits_since_ms && now_ms_ - *other.waits_since_ms >= kPatienceMs;
      return waits_long && !runs(other) && comes_before(other, job) && fits(worker, other);
    });
  }
  static int64_t extras(const SchedulableJob& job) { return static_cast<int64_t>(job.workers.size()) - job.nodes; }
  // It is of the kind of its workers from then on.
  void begin(SchedulableJob& job) {
    job.begun = true;
    if (!std::exchange(job.alike, false)) return;
    const std::string kind = of(job.workers[0]).numerics;
    for (const std::string& worker : job.workers) ASSERT_EQ(of(worker).numerics, kind) << job.id << " begins" << text();
    for (const SchedulableWorker& worker : workers_) {
      if (worker.numerics != kind) job.refused[worker.id] = "it computes other bits";
    }
  }
  // A job that cannot begin yet gets nothing that one of higher priority lacks for its nominal number.
  void check_nominal(const Assignment& given, const Plan& plan) {
    const auto waits = plan.waiting.find(given.job);
    if (waits == plan.waiting.end() || waits->second.there + waits->second.on_the_way >= waits->second.needed) return;
    for (const SchedulableJob& other : jobs_) {
      const bool lacks = runs(other) && static_cast<int64_t>(other.workers.size()) < other.nodes;
      const bool alike = !other.alike || (!other.workers.empty() && of(given.worker).numerics == of(other.workers[0]).numerics);
      ASSERT_FALSE(lacks && alike && other.priority > job(given.job).priority && fits(given.worker, other))
          << given.worker << " is kept for " << given.job << ", and " << other.id << " lacks it" << text();
    }
  }
  bool began(const std::string& id) {
    const auto found = std::ranges::find(jobs_, id, &SchedulableJob::id);
    return found == jobs_.end() || runs(*found);
  }

  bool arrive() {
    bool any = false;
    for (SchedulableWorker& worker : workers_) {
      if (worker.availability != Availability::kComing) continue;
      any = true;
      if (pick(2) == 0) worker.availability = Availability::kFree;
    }
    return any;
  }
  void assign(const Assignment& a) {
    ASSERT_EQ(of(a.worker).availability, Availability::kFree);
    of(a.worker).availability = Availability::kTaken;
    of(a.worker).last_job = a.job;
    job(a.job).workers.push_back(a.worker);
  }
  void take_back(const TakenBack& t) {
    SchedulableJob& from = job(t.job);
    ASSERT_EQ(std::erase(from.workers, t.worker), 1u);
    of(t.worker).availability = Availability::kComing;
    const int64_t left = static_cast<int64_t>(from.workers.size());
    ASSERT_TRUE(!from.training || left >= from.min_nodes) << "below its minimum" << text();
  }
  void preempt(const Preemption& p) {
    SchedulableJob& victim = job(p.job);
    ASSERT_GT(job(p.by).priority, victim.priority) << text();
    ASSERT_TRUE(victim.preemptible);
    for (const std::string& worker : victim.workers) of(worker).availability = Availability::kComing;
    victim.workers.clear();
    // A job that comes first may get them instead: it was to wait for its own workers a little longer before it preempts, or
    // takes doubtful ones only when they are free.
    std::vector<std::string>& by = preempted_[p.job] = {p.by};
    for (const SchedulableJob& other : jobs_) {
      if (comes_before(other, job(p.by)) && !runs(other)) by.push_back(other.id);
    }
    ++preemptions_;
  }

  void check_pair(const SchedulableJob& rich, const SchedulableJob& poor) const {
    if (!runs(rich) || !runs(poor) || rich.priority != poor.priority || extras(rich) < 1) return;
    const bool room = static_cast<int64_t>(poor.workers.size()) < poor.max_nodes;
    const bool of_use = std::ranges::any_of(
        rich.workers, [&](const std::string& worker) { return fits(worker, poor) && !is_doubtful(worker, poor); });
    ASSERT_FALSE(room && of_use && extras(rich) - extras(poor) >= 2)
        << rich.id << " has more than its share beside " << poor.id << text();
  }
  // A job that waits could not begin with all that it may have.
  void check_beginning(const SchedulableJob& job) {
    if (runs(job)) return;
    for (const std::string kind : {"avx2", "avx512"}) {
      const int64_t undisturbed = obtainable(job, kind, false), all = obtainable(job, kind, true);
      ASSERT_LT(undisturbed, job.min_nodes) << job.id << " could begin" << text();
      const bool may_preempt = !job.begun || (job.waits_since_ms && now_ms_ - *job.waits_since_ms >= kBackMs);
      ASSERT_FALSE(may_preempt && all >= job.min_nodes) << job.id << " could begin by preemption" << text();
    }
  }
  // A worker that is held back goes there only where nobody is preempted; a doubtful one only where it is free and nobody is.
  int64_t obtainable(const SchedulableJob& job, const std::string& kind, bool preempting) {
    int64_t count = 0;
    const auto is_of_use = [&](const std::string& worker) {
      return fits(worker, job) && (!job.alike || of(worker).numerics == kind);
    };
    for (const SchedulableWorker& worker : workers_) {
      const bool own = std::ranges::find(job.workers, worker.id) != job.workers.end();
      const bool avoided = preempting && (worker.held_back || is_doubtful(worker.id, job));
      const bool free = worker.availability == Availability::kFree && !avoided;
      count += (own || free) && is_of_use(worker.id) ? 1 : 0;
    }
    for (const SchedulableJob& other : jobs_) {
      if (&other == &job || !runs(other)) continue;
      const auto useful = std::ranges::count_if(other.workers, [&](const std::string& worker) {
        return is_of_use(worker) && !is_doubtful(worker, job) && !is_kept_from(job, worker);
      });
      const int64_t kept = other.priority >= job.priority ? other.nodes : preempting ? 0 : other.min_nodes;
      count += std::min<int64_t>(useful, std::max<int64_t>(0, static_cast<int64_t>(other.workers.size()) - kept));
    }
    return count;
  }

  std::mt19937 random_;
  std::vector<SchedulableWorker> workers_;
  std::vector<SchedulableJob> jobs_;
  int64_t submitted_ = 0, preemptions_ = 0, now_ms_ = 0;
  std::map<std::string, std::vector<std::string>> preempted_;  // and for whom
};

template <typename Each>
void for_seeds(const Each& each) {
  const char* chosen = std::getenv("HOLDFAST_SEED");
  const unsigned first = chosen != nullptr ? static_cast<unsigned>(std::atoi(chosen)) : 1;
  for (unsigned seed = first; seed <= (chosen != nullptr ? first : 500); ++seed) {
    SCOPED_TRACE(fmt::format("HOLDFAST_SEED={}", seed));
    each(seed);
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(RandomQueues, ComeToRestWhereTheRuleSaysAndPreemptNobodyInVain) {
  int64_t preemptions = 0;
  for_seeds([&](unsigned seed) {
    Cluster cluster(seed);
    for (int i = 0; i < 30 && !testing::Test::HasFatalFailure(); ++i) {
      cluster.pick(3) == 0 ? cluster.end_any() : cluster.submit_any();
      cluster.change_any();
      cluster.pass(cluster.pick(4) == 0 ? kPatienceMs : 0);
      // A job that was preempted may in its turn preempt, after a while.
      for (int priority = 0; priority < 3 && !testing::Test::HasFatalFailure(); ++priority) {
        cluster.settle();
        cluster.pass(kBackMs);
      }
      if (!testing::Test::HasFatalFailure()) cluster.settle();
      if (!testing::Test::HasFatalFailure()) cluster.check();
    }
    preemptions += cluster.preemptions();
  });
  EXPECT_GT(preemptions, 100) << "else this test shows nothing of it";
}

// A job that needs most of the workers, in a stream of small ones of its priority that end and are followed by others.
TEST(RandomQueues, AmongEqualsNobodyStarves) {
  for_seeds([&](unsigned seed) {
    Cluster cluster(seed);
    const int64_t all = cluster.workers();
    for (int64_t i = 0; i < all; ++i) cluster.submit(0, 1, 1, 1 + cluster.pick(2));
    cluster.settle();
    const std::string large = cluster.submit(0, all, all, all).id;
    int64_t ended = 0;
    const int64_t enough = kPatienceMs / 60'000 + 2 * all + 2;
    while (!cluster.runs(cluster.job(large)) && !testing::Test::HasFatalFailure()) {
      ASSERT_LT(ended, enough) << large << " is overtaken again and again" << cluster.text();
      std::vector<std::string> running;
      for (const SchedulableJob& job : cluster.jobs()) {
        if (cluster.runs(job)) running.push_back(job.id);
      }
      ASSERT_FALSE(running.empty()) << cluster.text();
      cluster.end(running[static_cast<size_t>(cluster.pick(static_cast<int>(running.size())))]);
      ++ended;
      cluster.submit(0, 1, 1, 1);
      cluster.pass(60'000);
      cluster.settle();
    }
  });
}

}  // namespace
}  // namespace holdfast::rendezvous
