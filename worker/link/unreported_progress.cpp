#include "worker/link/unreported_progress.h"

#include <utility>

namespace holdfast::worker {

using rendezvous::Progress;

namespace {

constexpr size_t kBytesPerReport = 500'000;  // the service takes 1 MiB

}  // namespace

void UnreportedProgress::begin(const std::string& job, int64_t generation, bool reports,
                               std::optional<rendezvous::StateDivision> division) {
  job_ = job;
  generation_ = generation;
  reports_ = reports;
  replaced_ = false;
  division_ = std::move(division);
  last_.reset();
}

void UnreportedProgress::end() {
  reports_ = false;
  last_.reset();
}

void UnreportedProgress::forget() {
  end();
  job_.clear();
  history_.clear();
  hash_.clear();
  hash_step_ = -1;
  hash_sent_ = true;
}

void UnreportedProgress::hashed(int64_t step, const std::string& hash) {
  if (step < hash_step_) return;
  hash_step_ = step;
  hash_ = hash;
  hash_sent_ = false;
}

void UnreportedProgress::replace_history(StepHistory history, int64_t step) {
  history_ = std::move(history);
  replaced_ = true;
  if (hash_step_ <= step) return;
  hash_.clear();
  hash_step_ = -1;
  hash_sent_ = true;
}

StepHistory UnreportedProgress::valid_history(std::span<const rendezvous::GenerationBegin> began) const {
  StepHistory valid = history_;
  if (!began.empty() && began.front().generation > generation_ + 1) valid.truncate(0);
  for (const auto& begin : began) {
    if (begin.generation > generation_) valid.truncate(begin.step);
  }
  return valid;
}

void UnreportedProgress::finish(int64_t step, const std::string& hash) {
  Progress last;
  last.step = step;
  last.state_hash = hash;
  last.state_hash_step = step;
  last.finished = true;
  set_last(std::move(last));
}

void UnreportedProgress::fail(int64_t step, const std::string& reason) {
  Progress last;
  last.step = step;
  last.failure = reason;
  set_last(std::move(last));
}

void UnreportedProgress::set_last(Progress last) {
  last_ = std::move(last);
  last_sent_ = false;
}

bool UnreportedProgress::may_repeat_end() const {
  return reports_ && last_ && last_sent_ && !has_news();
}

Progress UnreportedProgress::next_report() const {
  Progress report = history_.empty() && last_ ? *last_ : Progress{};
  report.generation = generation_;
  report.division = division_;
  report.points = history_.oldest(points_per_report_, kBytesPerReport);
  const bool complete = report.points.size() == history_.points().size();
  if (!report.points.empty()) {
    report.step = report.points.back().step;
  } else if (report.step == 0) {
    report.step = history_.acknowledged();
  }
  if (complete && !hash_sent_ && report.state_hash.empty()) {
    report.state_hash = hash_;
    report.state_hash_step = hash_step_;
  }
  return report;
}

void UnreportedProgress::note_sent(const std::string& job, const Progress& sent) {
  // The answer came late: this is the history of another job or generation.
  if (job != job_ || sent.generation != generation_ || replaced_) return;
  if (!sent.points.empty()) history_.acknowledge(sent.points.back().step);
  if (sent.state_hash_step >= hash_step_) hash_sent_ = true;
  if (last_ && (sent.finished || !sent.failure.empty())) last_sent_ = true;
}

}  // namespace holdfast::worker
