// Jobs that train only with workers of the same numerics, whichever: exact ones that have not begun.
//
// The kind is chosen once in a plan, before anything is counted. Workers of other kinds are neither counted nor given then, and
// those that the job has of them go back: they would get ready in vain.
#include <fmt/format.h>

#include <algorithm>

#include "rendezvous/scheduler_planner.h"

namespace holdfast::rendezvous {

const std::string& Planner::kind_of(const std::string& worker) const {
  static const std::string kUnknown;
  const auto found = numerics_.find(worker);
  return found == numerics_.end() ? kUnknown : found->second;
}

// Before a kind is chosen all are.
bool Planner::is_of_its_kind(const std::string& worker, const SchedulableJob& job) const {
  const auto chosen = kinds_.find(job.id);
  return chosen == kinds_.end() || kind_of(worker) == chosen->second;
}

Planner::Prospect Planner::prospect_of(const SchedulableJob& job) const {
  const std::vector<Spare> spare = spare_for(job);
  const Pool pool = pool_for(job, spare);
  std::vector<size_t> everybody;
  for (const Candidate& candidate : pool.candidates) everybody.push_back(candidate.job);
  Prospect prospect;
  prospect.own = fitting(job.workers, job);
  prospect.at_hand = prospect.own + fitting(free_, job) + fitting(coming_, job);
  const int64_t undisturbed = prospect.at_hand + fitting(held_back_, job) + static_cast<int64_t>(spare.size());
  const int64_t all = sum_of(pool, everybody);
  const int64_t needed = job.min_nodes;
  prospect.ease = prospect.at_hand >= needed ? 3 : undisturbed >= needed ? 2 : all >= needed ? 1 : 0;
  prospect.present = prospect.ease > 0 || could_begin(job);
  prospect.has_them = prospect.own >= needed;
  prospect.workers = prospect.ease == 3 ? prospect.at_hand : prospect.ease == 2 ? undisturbed : prospect.ease == 1 ? all : 0;
  return prospect;
}

void Planner::choose_kind(const SchedulableJob& job) {
  std::set<std::string> all;
  for (const auto& [worker, kind] : numerics_) all.insert(kind);
  std::string best;
  Prospect best_prospect;
  bool first = true;
  for (const std::string& kind : all) {
    kinds_[job.id] = kind;
    const Prospect prospect = prospect_of(job);
    if (!first && !(best_prospect < prospect)) continue;
    first = false;
    best_prospect = prospect;
    best = kind;
  }
  kinds_[job.id] = best;
}

void Planner::return_other_kinds(SchedulableJob& job) {
  choose_kind(job);
  const std::vector<std::string> before = job.workers;
  for (const std::string& worker : before) {
    if (is_of_its_kind(worker, job)) continue;
    coming_.push_back(worker);
    take(job, worker,
         fmt::format("its numerics are \"{}\", and the job, which is exact and needs like workers, begins with \"{}\"",
                     kind_of(worker), kinds_.at(job.id)));
  }
}

}  // namespace holdfast::rendezvous
