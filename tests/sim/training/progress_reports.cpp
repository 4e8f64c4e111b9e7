#include "tests/sim/training/progress_reports.h"

#include <utility>

#include "tests/sim/process.h"

namespace holdfast::sim {

using rendezvous::Progress;

namespace {

constexpr int64_t kIntervalMs = 100, kAfterRefusalMs = 1000, kRepeatEndMs = 1000, kReportTimeoutMs = 10000;
constexpr size_t kPointsPerReport = 8;  // few, so that reports in pieces happen

}  // namespace

ProgressReports::ProgressReports(Surroundings& around, Process& process)
    : around_(around), process_(process), progress_(kPointsPerReport) {}

void ProgressReports::begin(const std::string& job, int64_t generation, bool reports) {
  progress_.begin(job, generation, reports);
  send();
}

void ProgressReports::committed(rendezvous::StepPoint point) {
  progress_.committed(std::move(point));
  send();
}

void ProgressReports::hashed(int64_t step, const std::string& hash) {
  progress_.hashed(step, hash);
  send();
}

void ProgressReports::finish(int64_t step, const std::string& hash, std::function<void()> done) {
  progress_.finish(step, hash);
  when_finished_ = std::move(done);
  send();
}

void ProgressReports::fail(int64_t step, const std::string& reason, std::function<void()> done) {
  progress_.fail(step, reason);
  when_finished_ = std::move(done);
  send();
}

void ProgressReports::send() {
  if (sending_) return;
  if (progress_.has_news()) return report();
  if (!progress_.may_repeat_end()) return;
  process_.later(kRepeatEndMs, [this, repeat = ++repeats_] {
    if (repeat == repeats_ && !sending_ && progress_.may_repeat_end()) report();
  });
}

void ProgressReports::report() {
  sending_ = true;
  Progress report = progress_.next_report();
  report.worker = process_.name();
  report.incarnation = process_.incarnation();
  const auto heed = [this, job = progress_.job(), report](const Response& response) {
    const bool refused = !response.unreachable && response.refusal.has_value();
    if (!response.unreachable && !refused) progress_.note_sent(job, report);
    if (refused && response.refusal->code == "checkpoint_unknown") process_.checkpoints().register_again();
    if (progress_.end_is_confirmed() && when_finished_) std::exchange(when_finished_, nullptr)();
    process_.later(refused ? kAfterRefusalMs : kIntervalMs, [this] {
      sending_ = false;
      send();
    });
  };
  process_.client().ask(JobMessage{progress_.job(), report}, kReportTimeoutMs, heed, false);
}

}  // namespace holdfast::sim
