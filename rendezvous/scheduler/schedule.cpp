// The scheduler's passes over the jobs, highest priority first.
#include "rendezvous/scheduler/schedule.h"

#include <fmt/format.h>

#include <algorithm>

#include "rendezvous/membership/decide.h"
#include "rendezvous/scheduler/plan_check.h"
#include "rendezvous/scheduler/planner.h"
#include "rendezvous/text/natural_order.h"
#include "rendezvous/text/plural.h"

namespace holdfast::rendezvous {

Planner::Planner(std::vector<SchedulableJob> jobs, const std::vector<SchedulableWorker>& workers, int64_t now_ms)
    : jobs_(std::move(jobs)), now_ms_(now_ms) {
  std::ranges::sort(jobs_, [](const auto& a, const auto& b) {
    return a.priority != b.priority ? a.priority > b.priority : a.number < b.number;
  });
  for (size_t i = 0; i < jobs_.size(); ++i) {
    if (!jobs_[i].workers.empty()) staffed_.insert(i);
  }
  for (const SchedulableWorker& worker : workers) {
    last_[worker.id] = worker.last_job;
    kinds_.add(worker);
    if (worker.availability == SchedulableWorker::Availability::kFree)
      (worker.held_back ? held_back_ : free_).push_back(worker.id);
    if (worker.availability == SchedulableWorker::Availability::kComing) coming_.push_back(worker.id);
  }
  for (auto* list : {&free_, &held_back_, &coming_}) std::ranges::sort(*list, natural_less);
  moving_ = !coming_.empty();
}

Plan Planner::plan() {
  for (SchedulableJob& job : jobs_) shrink(job);
  for (SchedulableJob& job : jobs_) reach_minimum(job);
  for (SchedulableJob& job : jobs_) {
    if (can_train(job)) give(job, job.nodes);
  }
  deal_extras();
  deal_the_rest();
  if (!moving_) move_extras();
  for (SchedulableJob& job : jobs_) replace(job);
  for (const SchedulableJob& job : jobs_) explain(job);
  return std::move(plan_);
}

int64_t Planner::fitting(const std::vector<std::string>& workers, const SchedulableJob& job) const {
  return std::ranges::count_if(workers, [&](const std::string& worker) { return fits(worker, job); });
}

// Free workers, those that were here before first, until the job has `target`.
void Planner::give(SchedulableJob& job, int64_t target) {
  for (const bool of_those_that_were_here : {true, false}) {
    for (auto it = free_.begin(); it != free_.end() && have(job) < target && !out_.contains(job.id);) {
      const bool wanted = (last_[*it] == job.id || !of_those_that_were_here) && fits(*it, job);
      if (!wanted) {
        ++it;
        continue;
      }
      plan_.assignments.push_back({*it, job.id});
      given_.insert(job.id);
      anything_changed();
      job.workers.push_back(*it);
      staffed_.insert(static_cast<size_t>(&job - jobs_.data()));
      it = free_.erase(it);
    }
  }
}

void Planner::take(SchedulableJob& job, const std::string& worker, const std::string& reason, const std::string& by) {
  plan_.taken_back.push_back({worker, job.id, reason, by});
  std::erase(job.workers, worker);
  anything_changed();
  moving_ = true;
}

void Planner::shrink(SchedulableJob& job) {
  while (have(job) > job.max_nodes) {
    coming_.push_back(job.workers.back());
    take(job, std::string(job.workers.back()), fmt::format("the job was scaled to {}", job.max_nodes));
  }
}

// One at a time to the job of its priority that has the fewest.
void Planner::deal_extras() {
  for (auto first = staffed_.begin(); first != staffed_.end() && !free_.empty();) {
    const int64_t priority = jobs_[*first].priority;
    const auto next = std::find_if(first, staffed_.end(), [&](size_t i) { return jobs_[i].priority != priority; });
    for (bool dealt = true; dealt && !free_.empty();) {
      SchedulableJob* poorest = nullptr;
      for (auto it = first; it != next; ++it) {
        SchedulableJob& job = jobs_[*it];
        const bool room = can_train(job) && have(job) < job.max_nodes;
        if (!room || (poorest != nullptr && extras(job) >= extras(*poorest))) continue;
        if (std::ranges::any_of(free_, [&](const std::string& worker) { return fits(worker, job); })) poorest = &job;
      }
      dealt = poorest != nullptr;
      if (dealt) give(*poorest, have(*poorest) + 1);
    }
    first = next;
  }
}

// To jobs that wait. In a long queue most are like one before, which nobody of those left fitted either.
void Planner::deal_the_rest() {
  std::set<const void*> in_vain;  // sets of those that do not fit
  for (SchedulableJob& job : jobs_) {
    if (free_.empty()) return;
    if (can_train(job) || out_.contains(job.id) || in_vain.contains(job.unfit.get())) continue;
    if (std::ranges::none_of(free_, [&](const std::string& worker) { return satisfies(worker, job); })) {
      in_vain.insert(job.unfit.get());
      continue;
    }
    if (job.alike && !kinds_.is_chosen(job)) choose_kind(job);
    give(job, job.max_nodes);
  }
}

// A free worker for one that is of no use to a full job.
void Planner::replace(SchedulableJob& job) {
  for (const std::string& worker : job.in_the_way) {
    if (have(job) < job.max_nodes || fitting(free_, job) == 0) return;
    if (std::ranges::find(job.workers, worker) == job.workers.end()) continue;
    take(job, worker, "others of the job do not reach it, and another worker is free");
    give(job, job.max_nodes);
  }
}

void Planner::explain(const SchedulableJob& job) {
  if (have(job) >= job.min_nodes || out_.contains(job.id)) return;
  const auto claimed = claimed_.find(job.id);
  plan_.waiting[job.id] = {job.min_nodes, have(job), claimed == claimed_.end() ? 0 : claimed->second, job.refused};
  if (!job.alike || job.workers.empty()) return;
  for (const std::string& worker : free_) {
    if (kinds_.fits(worker, job) || !satisfies(worker, job)) continue;
    plan_.waiting[job.id].refused.emplace(
        worker, fmt::format("its numerics are \"{}\", those of the job's other workers \"{}\": an exact job takes like workers",
                            kinds_.of(worker), kinds_.chosen(job)));
  }
}

Plan schedule(const std::vector<SchedulableJob>& jobs, const std::vector<SchedulableWorker>& workers, int64_t now_ms) {
  Plan plan = Planner(jobs, workers, now_ms).plan();
  require_sound(jobs, workers, plan);
  return plan;
}

std::string in_words(const Shortage& shortage) {
  const int64_t missing = shortage.needed - shortage.there, coming = shortage.on_the_way;
  std::string text = fmt::format("waiting for {} more {}: {} needed, {} there", missing, plural(missing, "worker"),
                                 shortage.needed, shortage.there);
  if (coming > 0) text += fmt::format(", {} {} being freed for it", coming, coming == 1 ? "is" : "are");
  return text;
}

}  // namespace holdfast::rendezvous
