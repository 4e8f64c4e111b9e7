// Preemption: which jobs give up their workers so that another one can begin.
//
// Counted are the workers that fit the job and were never refused by it: nobody is preempted for one that then could not begin.
#include <algorithm>
#include <iterator>

#include "rendezvous/scheduler/planner.h"

namespace holdfast::rendezvous {

bool Planner::may_preempt(const SchedulableJob& job, const SchedulableJob& other) const {
  return other.preemptible && other.priority < job.priority && !out_.contains(other.id);
}

Planner::Pool Planner::pool_for(const SchedulableJob& job, const std::vector<Spare>& spare) const {
  Pool pool;
  const auto is_useful = [&](const std::string& worker) { return fits(worker, job) && !is_doubtful(worker, job); };
  for (auto it = staffed_.rbegin(); it != staffed_.rend(); ++it) {
    const SchedulableJob& other = jobs_[*it];
    if (!may_preempt(job, other)) continue;
    Candidate& candidate = pool.candidates.emplace_back(Candidate{*it, {}, {}});
    std::ranges::copy_if(other.workers, std::back_inserter(candidate.all),
                         [&](const std::string& worker) { return is_useful(worker) && !is_kept(worker); });
  }
  const auto is_own = [&](const std::string& worker) { return fits(worker, job); };
  std::ranges::copy_if(job.workers, std::back_inserter(pool.at_hand), is_own);
  for (const auto* list : {&free_, &coming_}) std::ranges::copy_if(*list, std::back_inserter(pool.at_hand), is_useful);
  for (const Spare& one : spare) {
    const auto candidate = std::ranges::find(pool.candidates, one.job, &Candidate::job);
    (candidate == pool.candidates.end() ? pool.at_hand : candidate->spare).push_back(one.worker);
  }
  return pool;
}

// The number of workers when the `chosen` candidates are preempted and the others give what they can spare.
int64_t Planner::Pool::workers_with(const std::vector<size_t>& preempted) const {
  auto sum = static_cast<int64_t>(at_hand.size());
  for (const Candidate& candidate : candidates) {
    const bool all = std::ranges::find(preempted, candidate.job) != preempted.end();
    sum += static_cast<int64_t>(all ? candidate.all.size() : candidate.spare.size());
  }
  return sum;
}

// Nobody, where all of them would not be enough.
std::vector<size_t> Planner::victims_for(const SchedulableJob& job, const std::vector<Spare>& spare) const {
  const Pool pool = pool_for(job, spare);
  std::vector<size_t> chosen;
  for (const Candidate& candidate : pool.candidates) {
    if (pool.workers_with(chosen) >= job.min_nodes) break;
    chosen.push_back(candidate.job);
  }
  if (pool.workers_with(chosen) < job.min_nodes) return {};
  // A small one is left alone where the larger one after it is enough.
  for (size_t i = chosen.size(); i-- > 0;) {
    std::vector<size_t> without = chosen;
    without.erase(without.begin() + static_cast<std::ptrdiff_t>(i));
    if (pool.workers_with(without) >= job.min_nodes) chosen = std::move(without);
  }
  return chosen;
}

void Planner::preempt(size_t victim, const SchedulableJob& by) {
  SchedulableJob& job = jobs_[victim];
  plan_.preemptions.push_back({job.id, by.id, by.priority});
  coming_.insert(coming_.end(), job.workers.begin(), job.workers.end());
  job.workers.clear();
  staffed_.erase(victim);
  out_.insert(job.id);
  anything_changed();
  moving_ = true;
}

}  // namespace holdfast::rendezvous
