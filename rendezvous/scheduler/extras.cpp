// Extras, which a job has above its nominal number: whether some had better be elsewhere.
//
// An extra that is moved is first taken back, which costs its job a yield, and dealt again when it is free. So a plan takes all
// that should move at once, and the next looks again only when everybody has arrived. It ends: a move leads from a job to one
// that is below its nominal number, of a higher priority, or at least two extras poorer.
#include <fmt/format.h>

#include <algorithm>

#include "rendezvous/scheduler/planner.h"

namespace holdfast::rendezvous {

int64_t Planner::expected(const SchedulableJob& job) const {
  const auto promised = promised_.find(job.id);
  return have(job) + (promised == promised_.end() ? 0 : promised->second);
}

int64_t Planner::extras(const SchedulableJob& job) const {
  return expected(job) - std::max(job.nodes, job.min_nodes);
}

bool Planner::should_move(const SchedulableJob& from, const SchedulableJob& to) const {
  if (&from == &to || !can_train(to) || expected(to) >= to.max_nodes || extras(from) < 1) return false;
  if (from.changing || given_.contains(from.id) || promised_.contains(from.id)) return false;
  if (extras(to) < 0 || to.priority > from.priority) return true;
  return to.priority == from.priority && extras(from) - extras(to) >= 2;
}

// For the first job that should get one: from the lowest priority, of these the richest, of these the youngest.
bool Planner::find_move(Move& move) const {
  for (const bool below_nominal : {true, false}) {
    for (const size_t to : staffed_) {
      if (below_nominal != (extras(jobs_[to]) < 0)) continue;
      bool found = false;
      for (auto from = staffed_.rbegin(); from != staffed_.rend(); ++from) {
        const SchedulableJob& giver = jobs_[*from];
        if (!should_move(giver, jobs_[to])) continue;
        const bool better = !found || (giver.priority == jobs_[move.from].priority && extras(giver) > extras(jobs_[move.from]));
        if (!better) continue;
        for (auto worker = giver.workers.rbegin(); worker != giver.workers.rend(); ++worker) {
          if (!fits(*worker, jobs_[to]) || is_doubtful(*worker, jobs_[to])) continue;
          move = {*from, to, *worker};
          found = true;
          break;
        }
      }
      if (found) return true;
    }
  }
  return false;
}

void Planner::move_extras() {
  if (std::ranges::none_of(staffed_, [&](size_t i) { return extras(jobs_[i]) >= 1; })) return;
  for (Move move; find_move(move);) {
    take(jobs_[move.from], move.worker,
         fmt::format("it is dealt to job {}, which has fewer workers than its share", jobs_[move.to].id));
    ++promised_[jobs_[move.to].id];
  }
}

}  // namespace holdfast::rendezvous
