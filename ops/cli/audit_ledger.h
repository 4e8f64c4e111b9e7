// The ledger's own consistency: pure, on the JSON that the service gives.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace holdfast::ops {

// Faults of a ledger: how many, and the first few in words.
struct Findings {
  static constexpr size_t kListedMax = 20;
  std::vector<std::string> listed;
  size_t total = 0;

  void add(std::string finding);
  void append(const Findings& other);
};

struct LedgerSummary {
  Findings findings;
  int64_t first_step = 1, last_step = 0, microbatches = 0;
  int64_t voided_steps = 0;  // steps that were done again
};

// `ledger`: {"microbatches", "first_step" (1, or later where the job began from another's checkpoint), "rows": [{first_step,
// last_step, first_microbatch, last_microbatch (half-open), voided_by}]}. The rows that are not voided must cover each
// microbatch of the steps from first_step to `step` once.
LedgerSummary audit_ledger(const nlohmann::json& ledger, int64_t step);

// The steps that have a digest. They come page by page, and one bit is kept for each: there may be millions.
class NotedSteps {
 public:
  NotedSteps(int64_t first, int64_t last);  // the steps that should have one
  // Whether `step` is expected and not noted yet. Steps after the last are not expected: pages of a job that runs are read one
  // after another, and the last ones know more.
  bool take(int64_t step, Findings& findings);
  void finish(Findings& findings) const;  // all were taken

 private:
  int64_t first_;
  std::vector<bool> seen_;
};

// Rows without what was done after `step`.
nlohmann::json rows_as_of(nlohmann::json rows, int64_t step);

}  // namespace holdfast::ops
