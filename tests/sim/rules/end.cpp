// The rules at the end of a job: every step once, by those whom the ledger names, and the bits of an undisturbed run.
#include <fmt/ranges.h>

#include <algorithm>

#include "tests/sim/checkpoints.h"
#include "tests/sim/rules/rules.h"

namespace holdfast::sim {
namespace {

using worker::Microbatches;

Microbatches microbatches_of(const std::vector<LedgerShare>& shares, int rank) {
  Microbatches all;
  for (const LedgerShare& share : shares) {
    for (int64_t m = share.first; share.rank == rank && m < share.last; ++m) all.push_back(m);
  }
  std::ranges::sort(all);
  return all;
}

}  // namespace

void Rules::check_attribution(const std::string& job, int64_t step, const ModelState& last) const {
  const auto& shares = store_.durable().ledger.at(job).at(step);
  const int64_t born = last.born[static_cast<size_t>(step - 1)];
  if (shares.front().generation != born)
    broken("step {} of {} was applied in generation {}, and the ledger says {}", step, job, born, shares.front().generation);
  const auto found = dealt_.find({job, born, step});
  if (found == dealt_.end()) broken("nobody computed step {} of {} in generation {}", step, job, born);
  const Dealt& dealt = found->second;
  for (size_t rank = 0; rank < dealt.own.size(); ++rank) {
    const Microbatches in_ledger = microbatches_of(shares, static_cast<int>(rank));
    if (in_ledger != dealt.own[rank])
      broken("step {} of {}: rank {} of generation {} computed the microbatches {}, and the ledger gives it {}", step, job,
             rank, born, fmt::join(dealt.own[rank], " "), fmt::join(in_ledger, " "));
  }
}

// Only after so many steps that were left out in a row, or with the job that it comes after.
void Rules::failed(const std::string& job) const {
  const rendezvous::JobSpec& spec = specs_.at(job);
  const rendezvous::JobRow& row = store_.durable().jobs.at(job);
  if (!spec.after.empty() && store_.durable().jobs.at(spec.after).state == "failed") return;
  const int64_t last = row.committed_step + 1;
  for (int64_t step = last - spec.max_refused_steps + 1; step <= last; ++step) {
    if (!not_finite_.at(job).contains(step)) broken("{} failed after step {}: {}", job, last - 1, row.reason);
  }
}

// Steps that end the job may be passed only where the count of them was lost with every worker's memory.
void Rules::check_not_to_fail(const std::string& job) const {
  const std::set<int64_t>& steps = not_finite_.at(job);
  if (static_cast<int64_t>(steps.size()) < specs_.at(job).max_refused_steps) return;
  for (const auto& [number, generation] : store_.durable().generations.at(job)) {
    const bool from_memory = generation.source.kind == rendezvous::StateSource::Kind::kMemory;
    if (!from_memory && generation.source.step >= *steps.begin()) return;
  }
  if (database_ == 0) broken("{} succeeded, and was to end for steps that are not finite", job);
}

void Rules::succeeded(const std::string& job, const CheckpointDisk& disk) {
  const rendezvous::JobSpec& spec = specs_.at(job);
  const rendezvous::JobRow& row = store_.durable().jobs.at(job);
  const ModelState& right = right_state(job, spec.total_steps);
  if (row.committed_step != spec.total_steps) broken("{} ended at step {}", job, row.committed_step);
  if (row.state_hash != right.hash() || row.state_hash_step != spec.total_steps)
    broken("{} ends with the hash {} of step {}; undisturbed it is {}", job, row.state_hash, row.state_hash_step, right.hash());
  const auto checkpoints = store_.durable().checkpoints.find(job);
  const bool listed = checkpoints != store_.durable().checkpoints.end() && checkpoints->second.contains(spec.total_steps);
  const auto* last = disk.find(job, spec.total_steps);
  if (!listed || last == nullptr) broken("{} ended without its last checkpoint", job);
  if (last->state.bits != right.bits) broken("{}: the last checkpoint holds other bits than an undisturbed run's", job);
  check_not_to_fail(job);
  check_ledger(job, row);
  for (int64_t step = begins_at(job) + 1; step <= spec.total_steps; ++step) {
    const bool excused =
        (given_up_.contains(job) && step <= given_up_.at(job)) || (unknown_to_.contains(job) && step <= unknown_to_.at(job));
    const auto steps = store_.durable().steps.find(job);
    if (!excused && (steps == store_.durable().steps.end() || !steps->second.contains(step)))
      broken("{} has no record of step {}", job, step);
    if (!excused) check_attribution(job, step, last->state);
  }
}

}  // namespace holdfast::sim
