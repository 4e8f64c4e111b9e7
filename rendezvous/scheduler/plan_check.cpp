#include "rendezvous/scheduler/plan_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "rendezvous/membership/invariants.h"

namespace holdfast::rendezvous {
namespace {

// Counts what each job has after the plan, and refuses what no plan may say.
class PlanCheck {
 public:
  PlanCheck(const std::vector<SchedulableJob>& jobs, const std::vector<SchedulableWorker>& workers) {
    for (const SchedulableJob& job : jobs) jobs_[job.id] = {&job, static_cast<int64_t>(job.workers.size())};
    for (const SchedulableWorker& worker : workers) {
      if (worker.availability == SchedulableWorker::Availability::kFree) free_.insert(worker.id);
    }
  }

  void preempted(const Preemption& preemption, const Plan& plan) {
    After& job = known(preemption.job);
    const SchedulableJob& by = *known(preemption.by).job;
    must_hold(job.job->preemptible && by.priority > job.job->priority && !job.preempted, [&] {
      return fmt::format("job {} of priority {} is preempted for {} of priority {}", preemption.job, job.job->priority,
                         preemption.by, by.priority);
    });
    job.preempted = true;
    job.has = 0;
    const auto waiting = plan.waiting.find(preemption.by);
    must_hold(waiting == plan.waiting.end() || waiting->second.there + waiting->second.on_the_way >= waiting->second.needed,
              [&] {
                return fmt::format("job {} is preempted for {}, which gets {} of {} workers", preemption.job, preemption.by,
                                   waiting->second.there + waiting->second.on_the_way, waiting->second.needed);
              });
  }
  void taken(const TakenBack& taken) {
    After& job = known(taken.job);
    const auto& workers = job.job->workers;
    const bool was_its = std::ranges::find(workers, taken.worker) != workers.end();
    must_hold(was_its && taken_.insert(taken.worker).second, [&] {
      return fmt::format("{} is taken from job {}, which {}", taken.worker, taken.job,
                         was_its ? "gives it up twice" : "does not have it");
    });
    if (!job.preempted) --job.has;  // else it gives up all of its workers
  }
  void given(const Assignment& given) {
    After& job = known(given.job);
    must_hold(free_.contains(given.worker),
              [&] { return fmt::format("{} is dealt to job {}, and it is not free", given.worker, given.job); });
    must_hold(dealt_.insert(given.worker).second, [&] { return fmt::format("{} is dealt twice", given.worker); });
    const bool unfit = job.job->unfit != nullptr && job.job->unfit->contains(given.worker);
    must_hold(!job.preempted && !unfit && !job.job->refused.contains(given.worker), [&] {
      return fmt::format("{} is dealt to job {}, which {}", given.worker, given.job,
                         job.preempted ? "is preempted"
                         : unfit       ? "requires others"
                                       : "refused it");
    });
    ++job.has;
    job.gains = true;
  }
  void require_sound_numbers(const Plan& plan) {
    for (const auto& [id, job] : jobs_) {
      const SchedulableJob& wanted = *job.job;
      must_hold(!job.gains || job.has <= wanted.max_nodes, [&] {
        return fmt::format("job {} gets {} workers, and at most {} are allowed", id, job.has, wanted.max_nodes);
      });
      const auto waiting = plan.waiting.find(wanted.id);
      const bool waits = waiting != plan.waiting.end();
      must_hold(waits == (job.has < wanted.min_nodes && !job.preempted), [&] {
        return fmt::format("job {} has {} of {} workers, and {}", id, job.has, wanted.min_nodes,
                           waits ? "is told to wait" : "nobody says that it waits");
      });
      must_hold(!waits || (waiting->second.there == job.has && waiting->second.needed == wanted.min_nodes), [&] {
        return fmt::format("job {} has {} of {} workers, and is told that it has {} of {}", id, job.has, wanted.min_nodes,
                           waiting->second.there, waiting->second.needed);
      });
    }
  }

 private:
  struct After {
    const SchedulableJob* job = nullptr;
    int64_t has = 0;
    bool preempted = false, gains = false;
  };
  After& known(const std::string& id) {
    const auto found = jobs_.find(id);
    must_hold(found != jobs_.end(), [&] { return fmt::format("the plan speaks of job {}, which nobody asked about", id); });
    return found->second;
  }

  std::unordered_map<std::string_view, After> jobs_;
  std::unordered_set<std::string_view> free_, taken_, dealt_;
};

}  // namespace

void require_sound(const std::vector<SchedulableJob>& jobs, const std::vector<SchedulableWorker>& workers, const Plan& plan) {
  PlanCheck check(jobs, workers);
  for (const Preemption& preemption : plan.preemptions) check.preempted(preemption, plan);
  for (const TakenBack& taken : plan.taken_back) check.taken(taken);
  for (const Assignment& given : plan.assignments) check.given(given);
  check.require_sound_numbers(plan);
}

}  // namespace holdfast::rendezvous
