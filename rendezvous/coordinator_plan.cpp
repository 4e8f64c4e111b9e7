// Which worker belongs to which job: the scheduler is shown all that it looks at, and what it wishes is done.
//
// A plan is made when something changed that it looks at, and when time alone changes it: pauses end, patience does. What
// comes by itself all the time (heartbeats, steps, ticks) asks for none.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "rendezvous/coordinator.h"

namespace holdfast::rendezvous {
namespace {

// Members in rank order, then the others by name: who is to be taken last comes first.
std::vector<std::string> in_order_of_rank(const JobMembership& m) {
  std::vector<std::pair<int, std::string>> ranked;
  for (const auto& [id, p] : m.participants) {
    if (!p.wanted || p.status.leaving) continue;
    const int rank = rank_of(m, p);
    ranked.emplace_back(rank < 0 ? INT32_MAX : rank, id);
  }
  std::ranges::sort(ranked, [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first < b.first : natural_less(a.second, b.second);
  });
  std::vector<std::string> names;
  for (auto& [rank, id] : ranked) names.push_back(std::move(id));
  return names;
}

constexpr Millis kPlanMaxMs = 10'000;  // what nobody thought of, such as a clock that is set, waits no longer than this

}  // namespace

void Coordinator::assign(Worker& worker, Job& job, bool more_follow) {
  const RegisterRequest& r = worker.registration;
  worker.job = worker.last_job = job.id;
  worker.after_generation = job.membership.current.number;
  save(worker);
  touch(r.name);
  apply(job, WorkerAssigned{{r.name, r.incarnation, r.address}, r.numerics, worker.after_generation, more_follow});
}

void Coordinator::free_worker(const std::string& id, const std::string& job, const std::string& reason) {
  const auto found = workers_.find(id);
  if (found == workers_.end() || found->second.job != job) return;
  found->second.job.clear();
  save(found->second);
  touch(id);
  if (!is_ended(jobs_by_id_.at(job)->membership.state))
    event(job, "worker_left", fmt::format("{} left the job: {}", id, reason), id);
}

void Coordinator::settle() {
  if (!unsettled_) return;
  // Each round may free workers that the next one gives away; a plan without changes is the end.
  for (int round = 0; round < 4 && unsettled_; ++round) unsettled_ = reschedule();
  next_plan_ms_ = now() + next_change_ms();
}

// How long until time alone may change the plan.
Millis Coordinator::next_change_ms() const {
  Millis soonest_ms = kPlanMaxMs;
  const auto due_in = [&](Millis ms) {
    if (ms > 0) soonest_ms = std::min(soonest_ms, ms);
  };
  for (const auto& [number, job] : live_) {
    const JobMembership& m = job->membership;
    due_in(retry_in_ms(*job));
    due_in(m.preemptible_ms - now());
    if (job->shortage && job->lacks_since_ms) {
      due_in(*job->lacks_since_ms + kBackMs - now());
      due_in(*job->lacks_since_ms + kPatienceMs - now());
    }
    for (const auto& [pair, rift] : m.rifts) due_in(rift.again_ms - now());
    for (const auto& [worker, barred] : m.barred) due_in(barred.again_ms - now());
  }
  for (const auto& [id, worker] : workers_) {
    if (worker.life == Worker::Life::kAlive) due_in(held_back_ms(worker.losses, wall_ms()));
  }
  return soonest_ms;
}

std::vector<SchedulableJob> Coordinator::jobs_to_plan() {
  std::vector<SchedulableJob> jobs;
  for (const auto& [number, job] : live_) {
    const JobMembership& m = job->membership;
    if (is_ended(m.state) || m.state == JobState::kPaused || m.intent != Intent::kRun || !may_begin(*job)) continue;
    SchedulableJob& s = jobs.emplace_back(SchedulableJob{job->id, number, m.spec.priority, m.min_nodes, m.nodes, m.max_nodes});
    s.training = m.state == JobState::kRunning;
    s.begun = m.current.number > 0;
    s.workers = in_order_of_rank(m);
    for (const auto& [id, p] : m.participants) {
      if (holds_state(m, p) && p.status.step > kept_step(m)) s.holders.push_back(id);
    }
    s.waits_since_ms = job->lacks_since_ms;
    show_to_planner(*job, s);
    s.in_the_way = in_the_way(m, now());
    if (!m.rifts.empty()) {
      for (const auto& [id, worker] : workers_) {
        if (worker.job != job->id && is_kept_away(m, id, worker.registration.incarnation, now()))
          s.refused[id] = "others of the job did not reach it; it is tried again later";
      }
    }
    for (const auto& [id, refusal] : job->refusals) {
      if (refusal_of(*job, id) != nullptr) {
        s.refused[id] = refusal.reason;
      } else {
        s.doubtful.insert(id);
      }
    }
  }
  return jobs;
}

std::vector<SchedulableWorker> Coordinator::workers_to_plan() const {
  using Availability = SchedulableWorker::Availability;
  std::vector<SchedulableWorker> workers;
  for (const auto& [id, worker] : workers_) {
    if (worker.life != Worker::Life::kAlive || worker.leaving()) continue;
    Availability availability = Availability::kTaken;
    if (const Job* job = find_job(worker.job)) {
      const auto p = job->membership.participants.find(id);
      const bool given_up = job->membership.intent != Intent::kRun;
      if (p != job->membership.participants.end() && (given_up || !p->second.wanted)) availability = Availability::kComing;
    } else {
      availability = worker.has_no_job() ? Availability::kFree : Availability::kComing;
    }
    workers.push_back(
        {id, availability, worker.last_job, held_back_ms(worker.losses, wall_ms()) > 0, worker.registration.numerics});
  }
  return workers;
}

bool Coordinator::carry_out(const Plan& plan) {
  for (const auto& [number, job] : live_) note_shortage(*job, plan);
  for (const Preemption& preemption : plan.preemptions)
    apply(*job_of(preemption.job), PreemptAsked{preemption.by, preemption.priority});
  for (const TakenBack& taken : plan.taken_back) apply(*job_of(taken.job), WorkerUnwanted{taken.worker, taken.reason});
  // Many may come to a job at once: what follows from it is decided once.
  std::map<std::string, size_t> last;
  for (size_t i = 0; i < plan.assignments.size(); ++i) last[plan.assignments[i].job] = i;
  for (size_t i = 0; i < plan.assignments.size(); ++i) {
    const Assignment& assignment = plan.assignments[i];
    assign(workers_.at(assignment.worker), *job_of(assignment.job), i != last.at(assignment.job));
  }
  const bool withdrawn = withdraw_preemptions();
  return withdrawn || !plan.taken_back.empty() || !plan.assignments.empty() || !plan.preemptions.empty();
}

// Since when a job lacks workers is kept until it trains: that it had enough for a moment does not count.
void Coordinator::note_shortage(Job& job, const Plan& plan) {
  const JobMembership& m = job.membership;
  const auto found = plan.waiting.find(job.id);
  job.shortage = found == plan.waiting.end() ? std::nullopt : std::optional(found->second);
  const bool trains = m.state == JobState::kRunning && m.stage != Stage::kForming;
  const bool over = !job.shortage && (trains || m.state == JobState::kPaused || retry_in_ms(job) > 0);
  if (job.shortage && !job.lacks_since_ms) {
    job.lacks_since_ms = now();
    job.lacks_since_wall_ms = wall_ms();
    save(job);
  } else if (over && job.lacks_since_ms) {
    forget_shortage(job);
    save(job);
  }
}

void Coordinator::forget_shortage(Job& job) {
  job.lacks_since_ms.reset();
  job.lacks_since_wall_ms = 0;
}

// A job that was asked to make room trains on where that is not needed any more.
bool Coordinator::withdraw_preemptions() {
  bool any = false;
  for (const auto& [number, job] : live_) {
    const JobMembership& m = job->membership;
    if (m.intent != Intent::kPreempt || m.stage == Stage::kYielding || is_ended(m.state)) continue;
    const Job* by = find_job(m.preempted_by);
    if (by != nullptr && !is_ended(by->membership.state) && by->shortage) continue;
    apply(*job, PreemptWithdrawn{});
    any = true;
  }
  return any;
}

bool Coordinator::reschedule() {
  follow_predecessors();
  std::vector<SchedulableJob> jobs = jobs_to_plan();
  if (!jobs.empty()) ++work_.plans;
  return carry_out(jobs.empty() ? Plan{} : schedule(std::move(jobs), workers_to_plan(), now()));
}

Plan Coordinator::plan_with(const JobSpec& spec) {
  Job job;
  job.number = next_job_number();
  job.id = next_job_id();
  job.membership.spec = spec;
  SchedulableJob planned{job.id, job.number, spec.priority, spec.min_nodes, spec.nodes, spec.max_nodes};
  show_to_planner(job, planned);
  std::vector<SchedulableJob> jobs = jobs_to_plan();
  jobs.push_back(std::move(planned));
  return schedule(std::move(jobs), workers_to_plan(), now());
}

}  // namespace holdfast::rendezvous
