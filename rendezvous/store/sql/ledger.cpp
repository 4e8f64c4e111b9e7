#include "rendezvous/store/sql/ledger.h"

#include <map>

namespace holdfast::rendezvous {

void SqlLedger::extend(const std::string& job, const Generation& generation, int64_t microbatches, int64_t first,
                       int64_t last) {
  db_.prepare(
         "UPDATE ledger SET last_step = ? WHERE job = ? AND generation = ? AND last_step = ? AND voided_by = 0 "
         "AND dealt_anew = 0")
      .with(last, job, generation.number, first - 1)
      .run();
  if (db_.changes() > 0) return;
  const int world_size = static_cast<int>(generation.members.size());
  for (int rank = 0; rank < world_size; ++rank) {
    const Share share = deal(microbatches, world_size, rank);
    db_.prepare(
           "INSERT INTO ledger (job, first_step, last_step, generation, rank, worker, first_microbatch, last_microbatch) "
           "VALUES (?,?,?,?,?,?,?,?)")
        .with(job, first, last, generation.number, rank, generation.members[rank].worker, share.first, share.last)
        .run();
  }
}

// Rows that straddle `first` end before it and begin again there: no row has both.
void SqlLedger::cut(const std::string& job, int64_t first) {
  db_.prepare(
         "INSERT INTO ledger (job, first_step, last_step, generation, rank, worker, first_microbatch, last_microbatch, "
         "dealt_anew) "
         "SELECT job, ?, last_step, generation, rank, worker, first_microbatch, last_microbatch, dealt_anew FROM ledger "
         "WHERE job = ? AND voided_by = 0 AND first_step < ? AND last_step >= ?")
      .with(first, job, first, first)
      .run();
  db_.prepare("UPDATE ledger SET last_step = ? WHERE job = ? AND voided_by = 0 AND first_step < ? AND last_step >= ?")
      .with(first - 1, job, first, first)
      .run();
}

void SqlLedger::deal_anew(const std::string& job, int64_t step, const std::vector<DealtShare>& shares) {
  cut(job, step);
  cut(job, step + 1);
  int64_t generation = 0;
  std::map<int, std::string> workers;
  {
    auto q = db_.prepare(
        "SELECT generation, rank, worker FROM ledger WHERE job = ? AND voided_by = 0 AND last_step >= ? "
        "AND first_step = ?");
    q.with(job, step, step);
    for (; q.step(); generation = q.integer(0)) workers[static_cast<int>(q.integer(1))] = q.text(2);
  }
  if (workers.empty()) return;
  db_.prepare("DELETE FROM ledger WHERE job = ? AND voided_by = 0 AND last_step >= ? AND first_step = ?")
      .with(job, step, step)
      .run();
  if (dealt_before(job, generation, step) == shares) {  // with a straggler it is so for many steps in a row
    db_.prepare(
           "UPDATE ledger SET last_step = ? WHERE job = ? AND generation = ? AND last_step = ? AND voided_by = 0 "
           "AND dealt_anew = 1")
        .with(step, job, generation, step - 1)
        .run();
    return;
  }
  for (const DealtShare& share : shares) {
    db_.prepare(
           "INSERT INTO ledger (job, first_step, last_step, generation, rank, worker, first_microbatch, last_microbatch, "
           "dealt_anew) VALUES (?,?,?,?,?,?,?,?,1)")
        .with(job, step, step, generation, share.rank, workers[share.rank], share.first, share.last)
        .run();
  }
}

// How the step before was dealt anew in this generation; empty when it was not.
std::vector<DealtShare> SqlLedger::dealt_before(const std::string& job, int64_t generation, int64_t step) {
  std::vector<DealtShare> shares;
  auto q = db_.prepare(
      "SELECT rank, first_microbatch, last_microbatch FROM ledger WHERE job = ? AND generation = ? AND last_step = ? AND "
      "voided_by = 0 AND dealt_anew = 1 ORDER BY rank, first_microbatch");
  q.with(job, generation, step - 1);
  while (q.step()) shares.push_back({static_cast<int>(q.integer(0)), q.integer(1), q.integer(2)});
  return shares;
}

void SqlLedger::void_steps(const std::string& job, int64_t first, int64_t by_generation) {
  cut(job, first);  // the steps below still count
  db_.prepare("UPDATE ledger SET voided_by = ? WHERE job = ? AND voided_by = 0 AND first_step >= ?")
      .with(by_generation, job, first)
      .run();
}

StepRange SqlLedger::range(const std::string& job) {
  auto q = db_.prepare("SELECT min(first_step), max(last_step) FROM ledger WHERE job = ?");
  if (!q.with(job).step()) return {};
  return {q.integer(0), q.integer(1)};  // 0 for NULL: no row
}

std::vector<LedgerRow> SqlLedger::rows(const std::string& job, const StepRange& range) {
  std::vector<LedgerRow> found;
  auto q = db_.prepare(
      "SELECT first_step, last_step, generation, rank, worker, first_microbatch, last_microbatch, voided_by FROM ledger WHERE "
      "job = ? AND first_step BETWEEN ? AND ? ORDER BY first_step, generation, rank");
  q.with(job, range.first, range.last);
  while (q.step()) {
    found.push_back({q.integer(0), q.integer(1), q.integer(2), static_cast<int>(q.integer(3)), q.text(4), q.integer(5),
                     q.integer(6), q.integer(7)});
  }
  return found;
}

}  // namespace holdfast::rendezvous
