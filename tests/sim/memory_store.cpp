#include "tests/sim/memory_store.h"
#include "tests/sim/violation.h"

#include <algorithm>

#include "rendezvous/protocol/job_spec.h"

namespace holdfast::sim {

using namespace rendezvous;  // NOLINT(google-build-using-namespace): rows, every line

const Generation* Tables::newest_generation(const std::string& job) const {
  const auto found = generations.find(job);
  return found == generations.end() || found->second.empty() ? nullptr : &found->second.rbegin()->second;
}

void MemoryStore::write(std::function<void(Tables&)> change) {
  if (!open_) throw Violation("the store is written to outside a transaction");
  changes_.push_back(std::move(change));
}

void MemoryStore::power_loss() {
  changes_.clear();
  open_ = fails_ = false;
}

void MemoryStore::begin() {
  if (open_) throw Violation("a transaction begins in another");
  open_ = true;
}

void MemoryStore::commit() {
  if (fails_) throw StoreError("the disk is full");
  if (!open_) throw Violation("a commit without a transaction");
  for (const auto& change : changes_) change(tables_);
  changes_.clear();
  open_ = false;
}

StoreContents MemoryStore::load() {
  StoreContents contents;
  for (const auto& [_, row] : tables_.jobs) contents.jobs.push_back(row);
  std::ranges::sort(contents.jobs, {}, &JobRow::number);
  for (const auto& [_, row] : tables_.workers) contents.workers.push_back(row);
  for (const auto& [job, generations] : tables_.generations) {
    const bool ended = is_ended(job_state_from(tables_.jobs.at(job).state));
    for (const auto& [number, generation] : generations) {
      if (!ended || number == generations.rbegin()->first) contents.generations.push_back({job, generation, 0});
    }
  }
  for (const auto& [_, checkpoints] : tables_.checkpoints) {
    for (const auto& [step, row] : checkpoints) contents.checkpoints.push_back(row);
  }
  for (const auto& [_, row] : tables_.refusals) contents.refusals.push_back(row);
  contents.ended_incarnations = tables_.ended;
  return contents;
}

void MemoryStore::save_job(const JobRow& row) {
  write([row](Tables& tables) { tables.jobs[row.id] = row; });
}
void MemoryStore::save_worker(const WorkerRow& row) {
  write([row](Tables& tables) { tables.workers[row.registration.name] = row; });
}
void MemoryStore::remove_worker(const std::string& worker) {
  write([worker](Tables& tables) { tables.workers.erase(worker); });
}
void MemoryStore::end_incarnation(const std::string&, const std::string& incarnation, const std::string& code) {
  write([incarnation, code](Tables& tables) { tables.ended[incarnation] = code; });
}

void MemoryStore::add_generation(const GenerationRow& row) {
  write([row](Tables& tables) {
    auto& generations = tables.generations[row.job];
    const int64_t number = row.generation.number;
    if (!generations.empty() && number <= generations.rbegin()->first) {
      throw Violation(fmt::format("generation {} of job {} forms, and there was a generation {} already", number, row.job,
                                  generations.rbegin()->first));
    }
    generations[number] = row.generation;
  });
}

void MemoryStore::save_checkpoint(const CheckpointRow& row) {
  write([row](Tables& tables) { tables.checkpoints[row.job][row.record.step] = row; });
}
void MemoryStore::remove_checkpoint(const std::string& job, int64_t step) {
  write([job, step](Tables& tables) { tables.checkpoints[job].erase(step); });
}
void MemoryStore::save_refusal(const RefusalRow& row) {
  write([row](Tables& tables) { tables.refusals[{row.job, row.worker}] = row; });
}
// Nobody here makes tokens or webhooks.
void MemoryStore::save_token(const TokenRow&) {
  throw Violation("a token was saved");
}
void MemoryStore::remove_token(const std::string&) {
  throw Violation("a token was removed");
}
void MemoryStore::save_webhook(const WebhookRow&) {
  throw Violation("a webhook was saved");
}
void MemoryStore::remove_webhook(const std::string&) {
  throw Violation("a webhook was removed");
}
void MemoryStore::save_delivery(const DeliveryRow&) {
  throw Violation("a delivery was saved");
}
void MemoryStore::remove_delivery(int64_t) {
  throw Violation("a delivery was removed");
}
void MemoryStore::save_idempotency(const IdempotencyRow&) {
  write([](Tables&) {});
}
std::optional<IdempotencyRow> MemoryStore::find_idempotency(const std::string&) {
  return std::nullopt;
}
void MemoryStore::add_event(const EventRow& row) {
  story_.tell("service", "{}{}{}: {}", row.job, row.job.empty() ? "" : " ", row.kind, row.message);
}
void MemoryStore::add_logs(const std::string&, const std::string&, const std::vector<LogLine>&) {
  write([](Tables&) {});
}

void MemoryStore::add_steps(const std::string& job, const std::vector<StepRow>& rows) {
  write([job, rows](Tables& tables) {
    for (const StepRow& row : rows) tables.steps[job].try_emplace(row.point.step, row);
  });
}

void MemoryStore::extend_ledger(const std::string& job, const Generation& generation, int64_t microbatches, int64_t first,
                                int64_t last) {
  write([=](Tables& tables) {
    const int world_size = static_cast<int>(generation.members.size());
    for (int64_t step = first; step <= last; ++step) {
      auto& shares = tables.ledger[job][step];
      if (!shares.empty()) throw Violation(fmt::format("step {} of job {} is committed twice", step, job));
      for (int rank = 0; rank < world_size; ++rank) {
        const Share share = deal(microbatches, world_size, rank);
        const std::string& worker = generation.members[static_cast<size_t>(rank)].worker;
        shares.push_back({generation.number, rank, worker, share.first, share.last});
      }
    }
  });
}

void MemoryStore::deal_anew(const std::string& job, int64_t step, const std::vector<DealtShare>& shares) {
  write([=](Tables& tables) {
    const auto there = tables.ledger[job].find(step);
    if (there == tables.ledger[job].end()) return;
    auto& rows = there->second;
    std::map<int, std::string> workers;
    for (const LedgerShare& row : rows) workers[row.rank] = row.worker;
    const int64_t generation = rows.front().generation;
    rows.clear();
    for (const DealtShare& share : shares)
      rows.push_back({generation, share.rank, workers[share.rank], share.first, share.last});
  });
}

void MemoryStore::void_steps(const std::string& job, int64_t first, int64_t) {
  write([=](Tables& tables) {
    auto& ledger = tables.ledger[job];
    for (auto it = ledger.lower_bound(first); it != ledger.end(); it = ledger.erase(it)) {
      for (const LedgerShare& share : it->second) tables.voided_ledger[job].emplace_back(it->first, share);
    }
    auto& steps = tables.steps[job];
    steps.erase(steps.lower_bound(first), steps.end());
  });
}

}  // namespace holdfast::sim
