// Whom to preempt so that a job can begin.
//
// Counted are the workers that fit the job and were never refused by it, and for one whose workers must be alike those of the
// kind of which there would be most: nobody is preempted for a job that then could not begin.
#include <algorithm>
#include <iterator>

#include "rendezvous/scheduler_planner.h"

namespace holdfast::rendezvous {

bool Planner::may_preempt(const SchedulableJob& job, const SchedulableJob& other) const {
  return other.preemptible && other.priority < job.priority && !out_.contains(other.id);
}

bool Planner::is_useful(const std::string& worker, const SchedulableJob& job) const {
  return fits(worker, job) && !job.doubtful.contains(worker);
}

const std::string& Planner::kind_of(const std::string& worker) const {
  static const std::string kUnknown;
  const auto found = numerics_.find(worker);
  return found == numerics_.end() ? kUnknown : found->second;
}

Planner::Pool Planner::pool_for(const SchedulableJob& job, const std::vector<Spare>& spare) const {
  Pool pool;
  for (auto it = staffed_.rbegin(); it != staffed_.rend(); ++it) {
    const SchedulableJob& other = jobs_[*it];
    if (!may_preempt(job, other)) continue;
    Candidate& candidate = pool.candidates.emplace_back(Candidate{*it, {}, {}});
    std::ranges::copy_if(other.workers, std::back_inserter(candidate.all), [&](const auto& w) { return is_useful(w, job); });
  }
  pool.at_hand = job.workers;
  for (const auto* list : {&free_, &coming_})
    std::ranges::copy_if(*list, std::back_inserter(pool.at_hand), [&](const auto& w) { return is_useful(w, job); });
  for (const Spare& one : spare) {
    const auto candidate = std::ranges::find(pool.candidates, one.job, &Candidate::job);
    (candidate == pool.candidates.end() ? pool.at_hand : candidate->spare).push_back(one.worker);
  }
  if (job.alike) keep_one_kind(pool);
  return pool;
}

void Planner::keep_one_kind(Pool& pool) const {
  std::map<std::string, int64_t> of_kind;
  for (const std::string& worker : pool.at_hand) ++of_kind[kind_of(worker)];
  for (const Candidate& candidate : pool.candidates) {
    for (const std::string& worker : candidate.all) ++of_kind[kind_of(worker)];
  }
  if (of_kind.empty()) return;
  const std::string kind = std::ranges::max_element(of_kind, {}, [](const auto& entry) { return entry.second; })->first;
  const auto differs = [&](const std::string& worker) { return kind_of(worker) != kind; };
  std::erase_if(pool.at_hand, differs);
  for (Candidate& candidate : pool.candidates) {
    std::erase_if(candidate.all, differs);
    std::erase_if(candidate.spare, differs);
  }
}

// What there is when those `chosen` are preempted and the other candidates give what they can spare.
int64_t Planner::sum_of(const Pool& pool, const std::vector<size_t>& chosen) {
  auto sum = static_cast<int64_t>(pool.at_hand.size());
  for (const Candidate& candidate : pool.candidates) {
    const bool preempted = std::ranges::find(chosen, candidate.job) != chosen.end();
    sum += static_cast<int64_t>(preempted ? candidate.all.size() : candidate.spare.size());
  }
  return sum;
}

// Nobody, where all of them would not be enough.
std::vector<size_t> Planner::victims_for(const SchedulableJob& job, const std::vector<Spare>& spare) const {
  const Pool pool = pool_for(job, spare);
  std::vector<size_t> chosen;
  for (const Candidate& candidate : pool.candidates) {
    if (sum_of(pool, chosen) >= job.min_nodes) break;
    chosen.push_back(candidate.job);
  }
  if (sum_of(pool, chosen) < job.min_nodes) return {};
  // A small one is left alone where the larger one after it is enough.
  for (size_t i = chosen.size(); i-- > 0;) {
    std::vector<size_t> without = chosen;
    without.erase(without.begin() + static_cast<std::ptrdiff_t>(i));
    if (sum_of(pool, without) >= job.min_nodes) chosen = std::move(without);
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
  bounds_.clear();
  moving_ = true;
}

}  // namespace holdfast::rendezvous
