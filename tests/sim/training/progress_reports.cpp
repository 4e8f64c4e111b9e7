#include "tests/sim/training/progress_reports.h"

#include <utility>

#include "tests/sim/process.h"

namespace holdfast::sim {

using rendezvous::Progress;

namespace {

constexpr int64_t kIntervalMs = 100, kAfterRefusalMs = 1000, kTimeoutMs = 10000;
constexpr size_t kPointsPerReport = 8;  // few, so that reports in pieces happen

}  // namespace

void ProgressReports::begin(const std::string& job, int64_t generation, bool reports) {
  job_ = job;
  generation_ = generation;
  reports_ = reports;
  last_.reset();
  send();
}

void ProgressReports::end() {
  reports_ = false;
  last_.reset();
}

void ProgressReports::forget() {
  end();
  job_.clear();
  history_.clear();
  hash_.clear();
  hash_step_ = -1;
  hash_sent_ = true;
}

void ProgressReports::committed(rendezvous::StepPoint point) {
  history_.add(std::move(point));
  send();
}

void ProgressReports::hashed(int64_t step, const std::string& hash) {
  if (step < hash_step_) return;
  hash_step_ = step;
  hash_ = hash;
  hash_sent_ = false;
  send();
}

void ProgressReports::acknowledge(int64_t step) {
  history_.acknowledge(step);
}

void ProgressReports::replace_history(worker::StepHistory history, int64_t step) {
  history_ = std::move(history);
  if (hash_step_ <= step) return;
  hash_.clear();
  hash_step_ = -1;
  hash_sent_ = true;
}

void ProgressReports::finish(int64_t step, const std::string& hash, std::function<void()> done) {
  last_ = Progress{};
  last_->step = step;
  last_->state_hash = hash;
  last_->state_hash_step = step;
  last_->finished = true;
  when_finished_ = std::move(done);
  send();
}

Progress ProgressReports::next_report() const {
  const bool complete = history_.points().size() <= kPointsPerReport;
  Progress report = complete && last_ ? *last_ : Progress{};
  report.worker = process_.name();
  report.incarnation = process_.incarnation();
  report.generation = generation_;
  report.points = history_.oldest(kPointsPerReport);
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

void ProgressReports::note_sent(const Progress& sent) {
  if (sent.generation != generation_) return;
  if (!sent.points.empty()) history_.acknowledge(sent.points.back().step);
  if (sent.state_hash_step >= hash_step_) hash_sent_ = true;
  if (!sent.finished || !last_) return;
  last_.reset();
  if (when_finished_) std::exchange(when_finished_, nullptr)();
}

void ProgressReports::send() {
  if (sending_ || !has_news()) return;
  sending_ = true;
  const Progress report = next_report();
  const auto heed = [this, report](const Response& response) {
    const bool refused = !response.unreachable && response.refusal.has_value();
    if (!response.unreachable && !refused) note_sent(report);
    process_.later(refused ? kAfterRefusalMs : kIntervalMs, [this] {
      sending_ = false;
      send();
    });
  };
  process_.client().ask(JobMessage{job_, report}, kTimeoutMs, heed, false);
}

}  // namespace holdfast::sim
