// The table of who computed which microbatches of which steps.
//
// A row is a stretch of steps in which one rank had one stretch of microbatches. Steps that are dealt as rendezvous::deal says
// extend the rows of their generation; steps that are not have rows of their own, marked, which are extended in turn while the
// dealing stays the same. Rows never overlap but for voided ones.
// Thread and transactions: the caller's.
#pragma once

#include <string>
#include <vector>

#include "rendezvous/store/job_store.h"
#include "rendezvous/store/sql/database.h"

namespace holdfast::rendezvous {

// Each function as in JobStore.
class SqlLedger {
 public:
  explicit SqlLedger(SqlDatabase& database) : db_(database) {}  // outlives it

  void extend(const std::string& job, const Generation& generation, int64_t microbatches, int64_t first, int64_t last);
  void deal_anew(const std::string& job, int64_t step, const std::vector<DealtShare>& shares);
  void void_steps(const std::string& job, int64_t first, int64_t by_generation);
  StepRange range(const std::string& job);
  std::vector<LedgerRow> rows(const std::string& job, const StepRange& range);

 private:
  void cut(const std::string& job, int64_t first);
  std::vector<DealtShare> dealt_before(const std::string& job, int64_t generation, int64_t step);

  SqlDatabase& db_;
};

}  // namespace holdfast::rendezvous
