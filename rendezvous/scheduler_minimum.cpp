// How a job reaches its minimum: free workers, those held back, what others can spare, and at last preemption
// (scheduler_preemption.cpp).
#include <fmt/format.h>

#include <algorithm>

#include "rendezvous/scheduler_planner.h"

namespace holdfast::rendezvous {

// All or nothing: a job that cannot reach its minimum does not keep workers from others, until it has waited for long.
void Planner::reach_minimum(SchedulableJob& job) {
  const int64_t missing = job.min_nodes - have(job);
  if (missing <= 0 || out_.contains(job.id)) return;
  if (obtainable_at_most(job.priority) < missing && !is_impatient(job)) return;
  const std::vector<Spare> spare = spare_for(job);
  const auto at_hand = [&] { return fitting(free_, job); };
  const int64_t others = fitting(coming_, job) + static_cast<int64_t>(spare.size());
  release_held_back(job, missing - at_hand(), others);
  if (at_hand() + others >= missing) return begin_with(job, spare);
  if (const std::vector<size_t> victims = victims_for(job, spare); !victims.empty()) {
    for (const size_t victim : victims) preempt(victim, job);
    return begin_with(job, spare);
  }
  if (!is_impatient(job) || !could_begin(job)) return;
  give(job, job.min_nodes);
  claim_coming(job);
}

// Workers that a job of this priority could get, if they all fitted it: seldom enough for thousands of jobs in a long queue,
// which then cost next to nothing.
int64_t Planner::obtainable_at_most(int64_t priority) {
  const auto known = bounds_.find(priority);
  if (known != bounds_.end()) return known->second;
  auto count = static_cast<int64_t>(free_.size() + held_back_.size() + coming_.size());
  for (const size_t i : staffed_) {
    const SchedulableJob& other = jobs_[i];
    const bool keeps_a_number = can_train(other) || other.training || is_assured(other);
    const bool all = !keeps_a_number || (other.priority < priority && other.preemptible);
    const int64_t kept = other.priority < priority ? other.min_nodes : std::max(other.nodes, other.min_nodes);
    count += all ? have(other) : std::max<int64_t>(0, have(other) - kept);
  }
  return bounds_[priority] = count;
}

// What is there is enough, with those on the way and some of `spare`.
void Planner::begin_with(SchedulableJob& job, const std::vector<Spare>& spare) {
  give(job, job.min_nodes);
  claim_coming(job);
  int64_t lacking = job.min_nodes - have(job) - claimed_[job.id];
  for (auto it = spare.begin(); it != spare.end() && lacking > 0; ++it) {
    SchedulableJob& other = jobs_[it->job];
    if (out_.contains(other.id)) continue;
    take(other, it->worker, fmt::format("job {} needs it to begin", job.id));
    ++claimed_[job.id];
    --lacking;
  }
}

void Planner::claim_coming(SchedulableJob& job) {
  int64_t& claimed = claimed_[job.id];
  bounds_.clear();
  std::erase_if(coming_, [&](const std::string& worker) {
    const bool wanted = have(job) + claimed < job.min_nodes && fits(worker, job);
    claimed += wanted ? 1 : 0;
    return wanted;
  });
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
    if (!fits(*worker, job) || job.doubtful.contains(*worker)) continue;
    if (!keeps_a_number && std::ranges::find(other.holders, *worker) != other.holders.end()) continue;
    spare.push_back(*worker);
  }
  return spare;
}

// --- who comes first

bool Planner::is_impatient(const SchedulableJob& job) const {
  return job.waits_since_ms >= 0 && now_ms_ - job.waits_since_ms >= kPatienceMs;
}

// It has its minimum, with those that are on their way to it.
bool Planner::is_assured(const SchedulableJob& job) const {
  const auto claimed = claimed_.find(job.id);
  return claimed != claimed_.end() && have(job) + claimed->second >= job.min_nodes;
}

// If all workers that are present were its own.
bool Planner::could_begin(const SchedulableJob& job) const {
  return std::ranges::count_if(numerics_, [&](const auto& entry) { return fits(entry.first, job); }) >= job.min_nodes;
}

// A job that waits keeps what it has against younger ones of no higher priority that need as much, and against all of these
// once it has waited for long.
bool Planner::outranks(const SchedulableJob& other, const SchedulableJob& job) const {
  const bool first = other.priority > job.priority || (other.priority == job.priority && other.number < job.number);
  return first && could_begin(other) && (job.min_nodes >= other.min_nodes || is_impatient(other));
}

}  // namespace holdfast::rendezvous
