// How a job reaches its minimum: free workers, those held back, what others can spare, and at last preemption
// (preemption.cpp).
#include <fmt/format.h>

#include <algorithm>

#include "rendezvous/scheduler/planner.h"

namespace holdfast::rendezvous {

// All or nothing: a job that cannot reach its minimum does not keep workers from others, until it has waited for long.
void Planner::reach_minimum(SchedulableJob& job) {
  if (out_.contains(job.id)) return;
  if (job.alike && !job.workers.empty()) return_other_kinds(job);
  const int64_t missing = job.min_nodes - have(job);
  if (missing <= 0) return;
  const bool may_begin = obtainable_at_most(job) >= missing;
  const bool may_hoard = has_waited(job) && !(free_.empty() && coming_.empty());
  if (!may_begin && !may_hoard) return note_hoarder(job);
  const bool choose = job.alike && !kinds_.is_chosen(job);
  const bool some_kind_may_do = !choose || choose_kind(job);
  if (may_begin && some_kind_may_do && begin(job)) return;
  note_hoarder(job);
  if (may_hoard) hoard(job);
}

// Whether it has its minimum then, or will when those on the way have come.
bool Planner::begin(SchedulableJob& job) {
  const int64_t missing = job.min_nodes - have(job);
  const std::vector<Spare> spare = spare_for(job);
  const auto at_hand = [&] { return fitting(free_, job); };
  const int64_t others = fitting(coming_, job) + static_cast<int64_t>(spare.size());
  release_held_back(job, missing - at_hand(), others);
  if (at_hand() + others >= missing) {
    begin_with(job, spare);
    return true;
  }
  if (job.begun && !has_waited(job, kBackMs)) return false;
  const std::vector<size_t> victims = victims_for(job, spare);
  if (victims.empty()) return false;
  for (const size_t victim : victims) preempt(victim, job);
  begin_with(job, spare);
  return true;
}

// Keeps for the job the workers that are free or come free; but jobs of higher priority that train have their nominal number
// first.
void Planner::hoard(SchedulableJob& job) {
  if (!could_begin(job)) return;
  for (const size_t i : staffed_) {
    if (jobs_[i].priority <= job.priority) break;
    if (can_train(jobs_[i])) give(jobs_[i], jobs_[i].nodes);
  }
  if (!could_begin(job)) return;
  give(job, job.min_nodes);
  claim_coming(job);
}

// More than these are not worth the time: they fit what there is, one or the other.
constexpr size_t kHoardersMax = 64;

void Planner::note_hoarder(const SchedulableJob& job) {
  if (!has_waited(job) || hoarders_.size() >= kHoardersMax) return;
  const bool plain = job.workers.empty() && job.refused.empty() && job.doubtful.empty();
  if (plain && !known_hoarders_.insert({{job.priority, job.min_nodes, job.unfit.get()}, job.alike}).second) return;
  if (could_begin(job)) hoarders_.push_back(&job);
}

// Were it taken from its job for one that comes later, a job that has waited for long would have it in the end, and somebody
// would have been disturbed in vain.
bool Planner::is_kept(const std::string& worker) const {
  return std::ranges::any_of(hoarders_, [&](const SchedulableJob* job) { return fits(worker, *job); });
}

// Workers that a job of this priority and these requirements could get, if nothing else were in the way: seldom enough for
// thousands of jobs in a long queue, which then cost next to nothing.
int64_t Planner::obtainable_at_most(const SchedulableJob& job) {
  const std::pair<int64_t, const void*> key{job.priority, job.unfit.get()};
  const auto known = bounds_.find(key);
  if (known != bounds_.end()) return known->second;
  const auto count_of = [&](const std::vector<std::string>& workers) -> int64_t {
    if (job.unfit == nullptr) return static_cast<int64_t>(workers.size());
    return std::ranges::count_if(workers, [&](const std::string& worker) { return satisfies(worker, job); });
  };
  int64_t count = count_of(free_) + count_of(held_back_) + count_of(coming_);
  for (const size_t i : staffed_) {
    const SchedulableJob& other = jobs_[i];
    const bool keeps_a_number = can_train(other) || other.training || is_assured(other);
    const bool all = !keeps_a_number || (other.priority < job.priority && other.preemptible);
    const int64_t kept = other.priority < job.priority ? other.min_nodes : std::max(other.nodes, other.min_nodes);
    const int64_t spare = all ? have(other) : std::max<int64_t>(0, have(other) - kept);
    if (spare > 0) count += std::min(spare, count_of(other.workers));
  }
  return bounds_[key] = count;
}

// Gives the job what it needs, which is there: free workers, those on the way, and some of `spare`.
void Planner::begin_with(SchedulableJob& job, const std::vector<Spare>& spare) {
  give(job, job.min_nodes);
  claim_coming(job);
  int64_t lacking = job.min_nodes - have(job) - claimed_[job.id];
  for (auto it = spare.begin(); it != spare.end() && lacking > 0; ++it) {
    SchedulableJob& other = jobs_[it->job];
    if (out_.contains(other.id)) continue;
    take(other, it->worker, fmt::format("job {} needs it to begin", job.id), job.id);
    ++claimed_[job.id];
    --lacking;
  }
}

void Planner::claim_coming(SchedulableJob& job) {
  int64_t& claimed = claimed_[job.id];
  const size_t all = coming_.size();
  std::erase_if(coming_, [&](const std::string& worker) {
    const bool wanted = have(job) + claimed < job.min_nodes && fits(worker, job);
    claimed += wanted ? 1 : 0;
    return wanted;
  });
  if (coming_.size() != all) anything_changed();
}

// Only where it is enough, alone or with the `others` that will come.
void Planner::release_held_back(const SchedulableJob& job, int64_t wanted, int64_t others) {
  const int64_t held = fitting(held_back_, job);
  if (held < wanted) {
    if (others >= wanted || held + others < wanted) return;
    wanted -= others;
  }
  std::erase_if(held_back_, [&](const std::string& worker) {
    if (wanted <= 0 || !fits(worker, job)) return false;
    free_.push_back(worker);
    --wanted;
    return true;
  });
}

// Lowest priority first, then the youngest, of each job those first that are to be taken first.
std::vector<Planner::Spare> Planner::spare_for(const SchedulableJob& job) const {
  std::vector<Spare> all;
  for (auto it = staffed_.rbegin(); it != staffed_.rend(); ++it) {
    for (std::string& worker : spare_of(jobs_[*it], job)) all.push_back({*it, std::move(worker)});
  }
  return all;
}

std::vector<std::string> Planner::spare_of(const SchedulableJob& other, const SchedulableJob& job) const {
  std::vector<std::string> spare;
  if (&other == &job || out_.contains(other.id)) return spare;
  const bool keeps_a_number = can_train(other) || other.training || is_assured(other);
  if (!keeps_a_number && outranks(other, job)) return spare;
  const int64_t number = other.priority < job.priority ? other.min_nodes : std::max(other.nodes, other.min_nodes);
  const int64_t kept = keeps_a_number ? number : 0;
  for (auto worker = other.workers.rbegin(); worker != other.workers.rend(); ++worker) {
    if (have(other) - static_cast<int64_t>(spare.size()) <= kept) break;
    if (!fits(*worker, job) || is_doubtful(*worker, job) || is_kept(*worker)) continue;
    if (!keeps_a_number && std::ranges::find(other.holders, *worker) != other.holders.end()) continue;
    spare.push_back(*worker);
  }
  return spare;
}

// --- who comes first

// It has its minimum, with those that are on their way to it.
bool Planner::is_assured(const SchedulableJob& job) const {
  const auto claimed = claimed_.find(job.id);
  return claimed != claimed_.end() && have(job) + claimed->second >= job.min_nodes;
}

// If all workers that are present were its own, but for those that jobs of higher priority have by right.
bool Planner::could_begin(const SchedulableJob& job) const {
  int64_t count = std::ranges::count_if(kinds_.by_worker(), [&](const auto& entry) { return fits(entry.first, job); });
  for (const size_t i : staffed_) {
    const SchedulableJob& other = jobs_[i];
    if (other.priority <= job.priority) break;
    if (!can_train(other) && !other.training && !is_assured(other) && !has_waited(other)) continue;
    const int64_t useful = fitting(other.workers, job);
    const int64_t above = std::max<int64_t>(0, have(other) - std::max(other.nodes, other.min_nodes));
    count -= useful - std::min(useful, above);
  }
  return count >= job.min_nodes;
}

// A job that waits keeps what it has against younger ones of no higher priority that need as much, and against all of these
// once it has waited for long.
bool Planner::outranks(const SchedulableJob& other, const SchedulableJob& job) const {
  const bool first = other.priority > job.priority || (other.priority == job.priority && other.number < job.number);
  return first && could_begin(other) && (job.min_nodes >= other.min_nodes || has_waited(other));
}

}  // namespace holdfast::rendezvous
