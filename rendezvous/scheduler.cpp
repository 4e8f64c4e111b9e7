// The scheduler's passes over the jobs, highest priority first.
#include "rendezvous/scheduler.h"

#include <fmt/format.h>

#include <algorithm>

#include "rendezvous/membership.h"

namespace holdfast::rendezvous {
namespace {

int64_t have(const SchedulableJob& job) {
  return static_cast<int64_t>(job.workers.size());
}

class Planner {
 public:
  Planner(std::vector<SchedulableJob> jobs, const std::vector<SchedulableWorker>& workers) : jobs_(std::move(jobs)) {
    std::ranges::sort(jobs_, [](const auto& a, const auto& b) {
      return a.priority != b.priority ? a.priority > b.priority : a.number < b.number;
    });
    for (const SchedulableWorker& worker : workers) {
      if (worker.availability == SchedulableWorker::Availability::kFree)
        (worker.held_back ? held_back_ : free_).push_back(worker);
      if (worker.availability == SchedulableWorker::Availability::kComing) ++coming_;
    }
    for (auto* list : {&free_, &held_back_})
      std::ranges::sort(*list, [](const auto& a, const auto& b) { return natural_less(a.id, b.id); });
  }

  Plan plan() {
    for (SchedulableJob& job : jobs_) shrink(job);
    for (SchedulableJob& job : jobs_) reach_minimum(job);
    for (SchedulableJob& job : jobs_) {
      if (have(job) >= job.min_nodes) give(job, job.nodes);
    }
    for (SchedulableJob& job : jobs_) {
      if (have(job) >= job.min_nodes) give(job, job.max_nodes);
    }
    for (SchedulableJob& job : jobs_) give(job, job.max_nodes);
    for (SchedulableJob& job : jobs_) replace(job);
    for (const SchedulableJob& job : jobs_) explain(job);
    return std::move(plan_);
  }

 private:
  bool fits(const SchedulableWorker& worker, const SchedulableJob& job) const { return !job.refused.contains(worker.id); }

  int64_t fitting(const SchedulableJob& job) const {
    return std::ranges::count_if(free_, [&](const auto& worker) { return fits(worker, job); });
  }

  // Free workers, those that were here before first, until the job has `target`.
  void give(SchedulableJob& job, int64_t target) {
    const auto was_here = [&](const SchedulableWorker& worker) { return worker.last_job == job.id; };
    if (std::ranges::any_of(free_, was_here)) std::ranges::stable_partition(free_, was_here);
    if (have(job) >= target) return;
    std::vector<SchedulableWorker> rest;
    for (SchedulableWorker& worker : free_) {
      if (have(job) >= target || !fits(worker, job)) {
        rest.push_back(std::move(worker));
        continue;
      }
      plan_.assignments.push_back({worker.id, job.id});
      job.workers.push_back(worker.id);
    }
    free_ = std::move(rest);
  }

  void take_last(SchedulableJob& job, const std::string& reason) {
    plan_.taken_back.push_back({job.workers.back(), job.id, reason});
    job.workers.pop_back();
    ++coming_;
  }

  void shrink(SchedulableJob& job) {
    while (have(job) > job.max_nodes) take_last(job, fmt::format("the job was scaled to {}", job.max_nodes));
  }

  // A free worker for one that is of no use to a full job.
  void replace(SchedulableJob& job) {
    for (const std::string& worker : job.in_the_way) {
      if (have(job) < job.max_nodes || fitting(job) == 0) return;
      if (std::erase(job.workers, worker) == 0) continue;
      plan_.taken_back.push_back({worker, job.id, "others of the job do not reach it, and another worker is free"});
      give(job, job.max_nodes);
    }
  }

  // How many of its last workers `job` could do without.
  static int64_t spare(const SchedulableJob& job) {
    if (have(job) >= job.min_nodes || job.training) return std::max<int64_t>(0, have(job) - std::max(job.nodes, job.min_nodes));
    return std::ranges::count_if(job.workers,
                                 [&](const std::string& w) { return std::ranges::find(job.holders, w) == job.holders.end(); });
  }

  // The last resort, and only where it is enough, alone or with the `others` that will come.
  void release_held_back(const SchedulableJob& job, int64_t wanted, int64_t others) {
    const auto fit = [&](const SchedulableWorker& worker) { return fits(worker, job); };
    const int64_t held = std::ranges::count_if(held_back_, fit);
    if (held < wanted) {
      if (others >= wanted || held + others < wanted) return;
      wanted -= others;
    }
    for (auto it = held_back_.begin(); it != held_back_.end() && wanted > 0;) {
      if (!fit(*it)) {
        ++it;
        continue;
      }
      free_.push_back(*it);
      it = held_back_.erase(it);
      --wanted;
    }
  }

  // All or nothing: a job that cannot reach its minimum does not keep workers from others.
  void reach_minimum(SchedulableJob& job) {
    const int64_t missing = job.min_nodes - have(job);
    if (missing <= 0) return;
    int64_t takeable = 0;
    for (const SchedulableJob& other : jobs_) takeable += &other == &job || outranks(other, job) ? 0 : spare(other);
    release_held_back(job, missing - fitting(job), coming_ + takeable);
    const int64_t at_hand = fitting(job);
    if (at_hand >= missing) return give(job, job.min_nodes);
    int64_t to_take = missing - at_hand - coming_;
    if (to_take > takeable) return;
    give(job, job.min_nodes);
    coming_ -= std::min(coming_, missing - at_hand);
    for (auto other = jobs_.rbegin(); other != jobs_.rend() && to_take > 0; ++other) {
      if (&*other == &job || outranks(*other, job)) continue;
      for (int64_t n = spare(*other); n > 0 && to_take > 0; --n, --to_take) {
        plan_.taken_back.push_back({other->workers.back(), other->id, fmt::format("job {} needs it to begin", job.id)});
        other->workers.pop_back();
      }
    }
  }

  // A job that waits for workers keeps what it has against younger ones of no higher priority; extras nobody keeps.
  static bool outranks(const SchedulableJob& other, const SchedulableJob& job) {
    const bool starved = have(other) < other.min_nodes && !other.training;
    return starved && (other.priority > job.priority || (other.priority == job.priority && other.number < job.number)) &&
           job.min_nodes >= other.min_nodes;
  }

  void explain(const SchedulableJob& job) {
    const int64_t missing = job.min_nodes - have(job);
    if (missing <= 0) return;
    std::string text = fmt::format("waiting for {} more worker{}: {} needed, {} there", missing, missing == 1 ? "" : "s",
                                   job.min_nodes, have(job));
    for (const auto& [worker, reason] : job.refused) text += fmt::format("; {} is refused: {}", worker, reason);
    plan_.waiting[job.id] = text;
  }

  std::vector<SchedulableJob> jobs_;
  std::vector<SchedulableWorker> free_, held_back_;
  int64_t coming_ = 0;
  Plan plan_;
};

}  // namespace

Plan schedule(std::vector<SchedulableJob> jobs, const std::vector<SchedulableWorker>& workers) {
  return Planner(std::move(jobs), workers).plan();
}

}  // namespace holdfast::rendezvous
