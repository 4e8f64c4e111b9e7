// The steps that a process reports when it is rank 0: worker/link/progress_reporter.cpp without its thread, on the real
// history.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tests/sim/surroundings.h"
#include "worker/link/step_history.h"

namespace holdfast::sim {

class Process;

class ProgressReports {
 public:
  ProgressReports(Surroundings& around, Process& process) : around_(around), process_(process) {}

  void begin(const std::string& job, int64_t generation, bool reports);
  void end();
  void forget();
  void committed(rendezvous::StepPoint point);
  void hashed(int64_t step, const std::string& hash);
  void acknowledge(int64_t step);
  int64_t acknowledged() const { return history_.acknowledged(); }
  const worker::StepHistory& history() const { return history_; }
  void replace_history(worker::StepHistory history, int64_t step);
  // `done` once the service has this last report.
  void finish(int64_t step, const std::string& hash, std::function<void()> done);
  // Whether the service knows of every step up to `step`, as far as this process can tell.
  bool knows(int64_t step) const { return history_.empty() || history_.acknowledged() >= step; }

 private:
  bool has_news() const { return reports_ && (!history_.empty() || !hash_sent_ || last_); }
  rendezvous::Progress next_report() const;
  void note_sent(const rendezvous::Progress& sent);
  void send();

  Surroundings& around_;
  Process& process_;
  worker::StepHistory history_;
  std::string job_, hash_;
  int64_t generation_ = 0, hash_step_ = -1;
  bool reports_ = false, hash_sent_ = true, sending_ = false;
  std::optional<rendezvous::Progress> last_;
  std::function<void()> when_finished_;
};

}  // namespace holdfast::sim
