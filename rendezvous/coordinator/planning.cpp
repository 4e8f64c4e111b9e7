#include "rendezvous/coordinator/planning.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "rendezvous/scheduler/requirements.h"
#include "rendezvous/text/natural_order.h"

namespace holdfast::rendezvous {
namespace {

// Members in rank order, then the other workers by name: the first worker is the last to be taken away.
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

constexpr Millis kPlanMaxMs =
    10'000;  // bounds the wait for a change that next_change_ms() does not know, such as a clock that is set

constexpr Millis kStuckMs = 60'000;  // a freed worker that is not idle by then is not waited for

}  // namespace

void Planning::replan() {
  if (!registry_.is_plan_asked()) return;
  // Each round may free workers that the next round gives away; a plan without changes ends the loop.
  for (int round = 0; round < 4 && registry_.is_plan_asked(); ++round) {
    const bool changed = plan_once();
    registry_.drop_plan_request();
    if (changed) registry_.ask_for_plan();
  }
  next_plan_ms_ = registry_.now() + next_change_ms();
}

void Planning::ask_if_due() {
  if (registry_.now() >= next_plan_ms_) registry_.ask_for_plan();
}

Millis Planning::next_change_ms() const {
  Millis soonest_ms = kPlanMaxMs;
  const auto due_in = [&](Millis ms) {
    if (ms > 0) soonest_ms = std::min(soonest_ms, ms);
  };
  for (const auto& [number, job] : registry_.live_jobs()) {
    const JobMembership& m = job->membership;
    due_in(retry_in_ms(*job, registry_.wall_ms()));
    due_in(m.preemptible_ms - registry_.now());
    if (job->shortage && job->lacks_since_ms) {
      due_in(*job->lacks_since_ms + kBackMs - registry_.now());
      due_in(*job->lacks_since_ms + kPatienceMs - registry_.now());
    }
    for (const auto& [pair, rift] : m.rifts) due_in(rift.again_ms - registry_.now());
    for (const auto& [worker, barred] : m.barred) due_in(barred.again_ms - registry_.now());
    for (const auto& [worker, refusal] : job->refusals) due_in(refusal.until_ms - registry_.now());
  }
  for (const auto& [id, worker] : registry_.workers()) {
    if (worker.life == Worker::Life::kAlive) due_in(held_back_ms(worker.losses, registry_.wall_ms()));
  }
  return soonest_ms;
}

std::vector<SchedulableJob> Planning::jobs_to_plan() {
  std::vector<SchedulableJob> jobs;
  for (const auto& [number, job] : registry_.live_jobs()) {
    const JobMembership& m = job->membership;
    if (is_ended(m.state) || m.state == JobState::kPaused || m.intent != Intent::kRun || !queue_.may_begin(*job)) continue;
    SchedulableJob& s = jobs.emplace_back(SchedulableJob{job->id, number, m.spec.priority, m.min_nodes, m.nodes, m.max_nodes});
    s.training = m.state == JobState::kRunning;
    s.begun = m.current.number > 0;
    s.workers = in_order_of_rank(m);
    for (const auto& [id, p] : m.participants) {
      if (holds_state(m, p) && p.status.step > kept_step(m)) s.holders.push_back(id);
    }
    s.waits_since_ms = job->lacks_since_ms;
    show_to_planner(*job, s);
    s.in_the_way = in_the_way(m, registry_.now());
    if (!m.rifts.empty()) {
      for (const auto& [id, worker] : registry_.workers()) {
        if (worker.job != job->id && is_kept_away(m, id, worker.registration.incarnation, registry_.now()))
          s.refused[id] = "others of the job did not reach it; it is tried again later";
      }
    }
    for (const auto& [id, refusal] : job->refusals) {
      if (registry_.refusal_of(*job, id) != nullptr) {
        s.refused[id] = refusal.row.reason;
      } else {
        s.doubtful.insert(id);
      }
    }
  }
  return jobs;
}

std::vector<SchedulableWorker> Planning::workers_to_plan() const {
  using Availability = SchedulableWorker::Availability;
  std::vector<SchedulableWorker> workers;
  for (const auto& [id, worker] : registry_.workers()) {
    if (worker.life != Worker::Life::kAlive || worker.leaving()) continue;
    Availability availability = Availability::kTaken;
    if (const Job* job = registry_.find_job(worker.job)) {
      const auto p = job->membership->participants.find(id);
      const bool given_up = job->membership->intent != Intent::kRun;
      if (p != job->membership->participants.end() && (given_up || !p->second.wanted)) availability = Availability::kComing;
    } else {
      const bool is_stuck = worker.freed_ms && registry_.now() >= *worker.freed_ms + kStuckMs;
      availability = worker.has_no_job() ? Availability::kFree : is_stuck ? Availability::kTaken : Availability::kComing;
    }
    workers.push_back({id, availability, worker.last_job, held_back_ms(worker.losses, registry_.wall_ms()) > 0,
                       worker.registration.numerics});
  }
  return workers;
}

bool Planning::carry_out(const Plan& plan) {
  for (const auto& [number, job] : registry_.live_jobs()) note_shortage(*job, plan);
  for (const Preemption& preemption : plan.preemptions)
    decisions_.apply(*registry_.find_job(preemption.job), PreemptAsked{preemption.by, preemption.priority});
  for (const TakenBack& taken : plan.taken_back)
    decisions_.apply(*registry_.find_job(taken.job), WorkerUnwanted{taken.worker, taken.reason});
  // A job that gets several workers at once decides with the last of them.
  std::map<std::string, size_t> last;
  for (size_t i = 0; i < plan.assignments.size(); ++i) last[plan.assignments[i].job] = i;
  for (size_t i = 0; i < plan.assignments.size(); ++i) {
    const Assignment& assignment = plan.assignments[i];
    decisions_.assign(registry_.workers().at(assignment.worker), *registry_.find_job(assignment.job),
                      i == last.at(assignment.job) ? Decisions::Batch::kLast : Decisions::Batch::kMoreFollow);
  }
  const bool withdrawn = withdraw_preemptions();
  return withdrawn || !plan.taken_back.empty() || !plan.assignments.empty() || !plan.preemptions.empty();
}

// The time since when a job lacks workers is kept until it trains: enough workers for a moment do not count.
void Planning::note_shortage(Job& job, const Plan& plan) {
  const JobMembership& m = job.membership;
  const auto found = plan.waiting.find(job.id);
  job.shortage = found == plan.waiting.end() ? std::nullopt : std::optional(found->second);
  const bool trains = m.state == JobState::kRunning && m.stage != Stage::kForming;
  const bool over = !job.shortage && (trains || m.state == JobState::kPaused || retry_in_ms(job, registry_.wall_ms()) > 0);
  if (job.shortage && !job.lacks_since_ms) {
    job.lacks_since_ms = registry_.now();
    job.lacks_since_wall_ms = registry_.wall_ms();
    registry_.save(job);
  } else if (over && job.lacks_since_ms) {
    job.forget_shortage();
    registry_.save(job);
  }
}

// A job that was asked to make room trains on if the room is not needed any more.
bool Planning::withdraw_preemptions() {
  bool any = false;
  for (const auto& [number, job] : registry_.live_jobs()) {
    const JobMembership& m = job->membership;
    if (m.intent != Intent::kPreempt || m.stage == Stage::kYielding || is_ended(m.state)) continue;
    const Job* by = registry_.find_job(m.preempted_by);
    if (by != nullptr && !is_ended(by->membership->state) && by->shortage) continue;
    decisions_.apply(*job, PreemptWithdrawn{});
    any = true;
  }
  return any;
}

bool Planning::plan_once() {
  queue_.follow_predecessors();
  const std::vector<SchedulableJob> jobs = jobs_to_plan();
  if (!jobs.empty()) ++made_;
  return carry_out(jobs.empty() ? Plan{} : schedule(jobs, workers_to_plan(), registry_.now()));
}

Plan Planning::plan_with(const JobSpec& spec) {
  Job job;
  job.number = registry_.next_job_number();
  job.id = registry_.next_job_id();
  job.membership = begin_membership({job.id, 0, spec, {}}, registry_.now());
  SchedulableJob planned{job.id, job.number, spec.priority, spec.min_nodes, spec.nodes, spec.max_nodes};
  show_to_planner(job, planned);
  std::vector<SchedulableJob> jobs = jobs_to_plan();
  jobs.push_back(std::move(planned));
  return schedule(jobs, workers_to_plan(), registry_.now());
}

// --- a job as the scheduler sees it

void Planning::show_to_planner(const Job& job, SchedulableJob& planned) {
  const JobMembership& m = job.membership;
  const bool exact = m.spec.reduction == "exact", has_numerics = !m.began_at.empty() && !m.numerics.empty();
  planned.preemptible = is_preemptible(m, registry_.now());
  planned.changing = m.stage != Stage::kRunning || std::ranges::any_of(m.participants, [&](const auto& entry) {
                       return entry.second.wanted && !is_member(m, entry.second);
                     });
  planned.alike = exact && !has_numerics;
  if (!m.spec.requirements.empty() || !jobs_with_own_workers().empty()) planned.unfit = workers_ineligible_for(job);
  if (exact && has_numerics) planned.unlike = workers_incompatible_with(m.numerics);
}

const std::set<std::string>& Planning::jobs_with_own_workers() {
  if (!jobs_with_own_workers_) {
    jobs_with_own_workers_.emplace();
    for (const auto& [id, worker] : registry_.workers()) {
      if (!worker.registration.only_job.empty()) jobs_with_own_workers_->insert(worker.registration.only_job);
    }
  }
  return *jobs_with_own_workers_;
}

// Computed once for all jobs with the same requirements and no workers of their own, and again when a worker has registered.
WorkerSet Planning::workers_ineligible_for(const Job& job) {
  // Some belong to jobs that have ended.
  if (ineligible_.size() > registry_.live_jobs().size() + 1) ineligible_.clear();
  const Labels& requirements = job.membership->spec.requirements;
  const std::string own = jobs_with_own_workers().contains(job.id) ? job.id : "";
  WorkerSet& known = ineligible_[{requirements, own}];
  if (known == nullptr) {
    std::set<std::string> found;
    for (const auto& [id, worker] : registry_.workers()) {
      const std::string& only = worker.registration.only_job;
      if ((!only.empty() && only != own) || !satisfies(worker.registration, requirements)) found.insert(id);
    }
    known = std::make_shared<const std::set<std::string>>(std::move(found));
  }
  return known;
}

WorkerSet Planning::workers_incompatible_with(const std::string& numerics) {
  if (incompatible_by_numerics_.size() > registry_.live_jobs().size() + 1) incompatible_by_numerics_.clear();
  WorkerSet& known = incompatible_by_numerics_[numerics];
  if (known == nullptr) {
    std::set<std::string> found;
    for (const auto& [id, worker] : registry_.workers()) {
      if (worker.registration.numerics != numerics) found.insert(id);
    }
    known = std::make_shared<const std::set<std::string>>(std::move(found));
  }
  return known;
}

}  // namespace holdfast::rendezvous
