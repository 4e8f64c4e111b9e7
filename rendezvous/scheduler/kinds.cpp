// Jobs that train only with workers of the same numerics, whichever: exact ones that have not begun.
//
// The kind is chosen once in a plan, before anything is counted. Workers of other kinds are neither counted nor given then, and
// those that the job has of them go back: they would get ready in vain.
#include <fmt/format.h>

#include <algorithm>

#include "rendezvous/scheduler/planner.h"

namespace holdfast::rendezvous {

Planner::Prospect Planner::prospect_of(const SchedulableJob& job) const {
  const std::vector<Spare> spare = spare_for(job);
  const Pool pool = pool_for(job, spare);
  std::vector<size_t> everybody;
  for (const Candidate& candidate : pool.candidates) everybody.push_back(candidate.job);
  Prospect prospect;
  prospect.own = fitting(job.workers, job);
  prospect.at_hand = prospect.own + fitting(free_, job) + fitting(coming_, job);
  const int64_t undisturbed = prospect.at_hand + fitting(held_back_, job) + static_cast<int64_t>(spare.size());
  const int64_t all = pool.workers_with(everybody);
  const int64_t needed = job.min_nodes;
  prospect.ease = prospect.at_hand >= needed ? 3 : undisturbed >= needed ? 2 : all >= needed ? 1 : 0;
  prospect.present = prospect.ease > 0 || could_begin(job);
  prospect.has_them = prospect.own >= needed;
  prospect.workers = prospect.ease == 3 ? prospect.at_hand : prospect.ease == 2 ? undisturbed : prospect.ease == 1 ? all : 0;
  return prospect;
}

// Whether some kind may be enough. Of jobs that are alike in all that counts here the older one's failure holds for the
// younger.
bool Planner::choose_kind(const SchedulableJob& job) {
  if (kinds_.all().size() < 2) {
    kinds_.choose(job, kinds_.all().empty() ? "" : *kinds_.all().begin());
    return true;
  }
  const bool plain = job.workers.empty() && job.refused.empty() && job.doubtful.empty();
  const Class of_jobs{job.priority, job.min_nodes, job.unfit.get()};
  if (const auto known = in_vain_.find(of_jobs); plain && known != in_vain_.end()) {
    kinds_.choose(job, known->second);
    return false;
  }
  std::string best;
  std::optional<Prospect> best_prospect;
  for (const std::string& kind : kinds_.all()) {
    kinds_.choose(job, kind);
    const Prospect prospect = prospect_of(job);
    if (best_prospect && !(*best_prospect < prospect)) continue;
    best_prospect = prospect;
    best = kind;
  }
  kinds_.choose(job, best);
  if (plain && best_prospect->ease == 0) in_vain_[of_jobs] = best;
  return best_prospect->ease > 0;
}

void Planner::return_other_kinds(SchedulableJob& job) {
  const std::string first = kinds_.of(job.workers.front());
  const bool of_one = std::ranges::all_of(job.workers, [&](const std::string& worker) { return kinds_.of(worker) == first; });
  if (of_one && have(job) >= job.min_nodes) {
    kinds_.choose(job, first);
    return;
  }
  choose_kind(job);
  const std::vector<std::string> before = job.workers;
  for (const std::string& worker : before) {
    if (kinds_.fits(worker, job)) continue;
    coming_.push_back(worker);
    take(job, worker,
         fmt::format("its numerics are \"{}\", and the job, which is exact and needs like workers, begins with \"{}\"",
                     kinds_.of(worker), kinds_.chosen(job)));
  }
}

}  // namespace holdfast::rendezvous
