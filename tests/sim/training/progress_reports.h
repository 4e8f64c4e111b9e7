// The steps that a process reports when it is rank 0: worker/link/progress_reporter.cpp without its thread, on the real
// reports.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "tests/sim/surroundings.h"
#include "worker/link/unreported_progress.h"

namespace holdfast::sim {

class Process;

class ProgressReports {
 public:
  ProgressReports(Surroundings& around, Process& process);

  void begin(const std::string& job, int64_t generation, bool reports);
  void end() { progress_.end(); }
  void forget() { progress_.forget(); }
  void committed(rendezvous::StepPoint point);
  void hashed(int64_t step, const std::string& hash);
  void acknowledge(int64_t step) { progress_.acknowledge(step); }
  int64_t acknowledged() const { return progress_.history().acknowledged(); }
  worker::StepHistory valid_history(const rendezvous::Directive& join) const { return progress_.valid_history(join.began); }
  void replace_history(worker::StepHistory history, int64_t step) { progress_.replace_history(std::move(history), step); }
  // `done` once the service has this last report.
  void finish(int64_t step, const std::string& hash, std::function<void()> done);
  void fail(int64_t step, const std::string& reason, std::function<void()> done);
  bool knows(int64_t step) const { return progress_.knows(step); }

 private:
  void send();
  void report();

  Surroundings& around_;
  Process& process_;
  worker::UnreportedProgress progress_;
  bool sending_ = false;
  int64_t repeats_ = 0;  // counts the waits for a repetition: an older one does nothing
  std::function<void()> when_finished_;
};

}  // namespace holdfast::sim
