// Steps are cut where any row begins or ends: within such a stretch all steps have the same rows, so a long run with few
// generations is few stretches.
#include "ops/cli/audit_ledger.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace holdfast::ops {
namespace {

using Json = nlohmann::json;

struct Row {
  int64_t first_step, last_step, first, last;
};

bool is_voided(const Json& row) {
  return row.contains("voided_by") && !row["voided_by"].is_null() && row["voided_by"] != 0;
}

// Empty when each of `microbatches` is in `rows` exactly once.
std::string wrong_cover(std::vector<Row> rows, int64_t microbatches) {
  std::ranges::sort(rows, {}, &Row::first);
  int64_t next = 0;
  for (const Row& row : rows) {
    if (row.first > next) return fmt::format("microbatches {} to {} are accounted to nobody", next, row.first - 1);
    if (row.first < next)
      return fmt::format("microbatches {} to {} are accounted to two workers", row.first, std::min(next, row.last) - 1);
    next = row.last;
  }
  if (next == microbatches) return "";
  return next < microbatches ? fmt::format("microbatches {} to {} are accounted to nobody", next, microbatches - 1)
                             : fmt::format("microbatch {} is accounted for, and a step has {}", next - 1, microbatches);
}

void check_stretch(const std::vector<Row>& all, int64_t first, int64_t last, int64_t microbatches, Findings& findings) {
  std::vector<Row> rows;
  for (const Row& row : all) {
    if (row.first_step <= first && last <= row.last_step && row.first < row.last) rows.push_back(row);
  }
  const std::string wrong = wrong_cover(std::move(rows), microbatches);
  if (!wrong.empty()) findings.add(fmt::format("steps {} to {}: {}", first, last, wrong));
}

}  // namespace

void Findings::add(std::string finding) {
  ++total;
  if (listed.size() < kListedMax) listed.push_back(std::move(finding));
}

void Findings::append(const Findings& other) {
  for (const std::string& finding : other.listed) add(finding);
  total += other.total - other.listed.size();
}

LedgerSummary audit_ledger(const Json& ledger, int64_t step) {
  LedgerSummary summary;
  summary.microbatches = ledger.at("microbatches").get<int64_t>();
  summary.first_step = ledger.value("first_step", int64_t{1});
  summary.last_step = step;
  std::vector<Row> rows;
  std::set<int64_t> voided;
  for (const Json& row : ledger.at("rows")) {
    const Row read{row.at("first_step"), row.at("last_step"), row.at("first_microbatch"), row.at("last_microbatch")};
    if (!is_voided(row)) rows.push_back(read);
    for (int64_t s = read.first_step; is_voided(row) && s <= read.last_step; ++s) voided.insert(s);
  }
  summary.voided_steps = static_cast<int64_t>(voided.size());
  std::set<int64_t> cuts = {summary.first_step, step + 1};
  for (const Row& row : rows) cuts.insert({row.first_step, row.last_step + 1});
  for (auto cut = cuts.begin(); cut != cuts.end() && std::next(cut) != cuts.end(); ++cut) {
    const int64_t first = *cut, last = *std::next(cut) - 1;
    if (first < summary.first_step) {
      summary.findings.add(
          fmt::format("steps {} to {} are accounted for, and the job began with step {}", first, last, summary.first_step));
    } else if (first > step) {
      summary.findings.add(fmt::format("steps {} to {} are accounted for, and the job is at step {}", first, last, step));
    } else {
      check_stretch(rows, first, last, summary.microbatches, summary.findings);
    }
  }
  return summary;
}

NotedSteps::NotedSteps(int64_t first, int64_t last)
    : first_(first), seen_(static_cast<size_t>(std::max<int64_t>(last - first + 1, 0))) {}

bool NotedSteps::take(int64_t step, Findings& findings) {
  if (step < first_ || step - first_ >= static_cast<int64_t>(seen_.size())) return false;
  auto seen = seen_[static_cast<size_t>(step - first_)];
  if (seen) findings.add(fmt::format("step {} is noted twice", step));
  const bool news = !seen;
  seen = true;
  return news;
}

void NotedSteps::finish(Findings& findings) const {
  for (size_t i = 0; i < seen_.size(); ++i) {
    if (!seen_[i]) findings.add(fmt::format("step {} is not noted", first_ + static_cast<int64_t>(i)));
  }
}

Json rows_as_of(Json rows, int64_t step) {
  Json kept = Json::array();
  for (Json& row : rows) {
    if (!is_voided(row)) {
      if (row.at("first_step").get<int64_t>() > step) continue;
      row["last_step"] = std::min(row.at("last_step").get<int64_t>(), step);
    }
    kept.push_back(std::move(row));
  }
  return kept;
}

}  // namespace holdfast::ops
