// Committed steps on their way to the service.
//
// Promises: a committed step is never lost while one rank of the job lives: it is kept until the service has confirmed it
// (StepHistory), and only the rank that reports sends; at most ten reports a second; `finish` and `fail` return when the
// service has answered, however long it is away, or when they are interrupted.
// Thread: any for the callers (the train thread, the checkpoint thread); one of its own that sends.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "worker/service_link.h"
#include "worker/step_history.h"

namespace holdfast::worker {

class ProgressReporter {
 public:
  explicit ProgressReporter(ServiceLink& link);
  ~ProgressReporter();

  // A generation begins; `reports`: this is rank 0.
  void begin(const std::string& job, int64_t generation, bool reports);
  // It is over: nothing is sent until the next begins.
  void end();

  void committed(rendezvous::StepPoint point);
  // Goes with the next report.
  void hashed(int64_t step, const std::string& hash);
  // Waits until the service knows every step up to `step`; false when it does not by then, or the interrupt is raised.
  bool drain(int64_t step, Interrupt& interrupt, std::chrono::milliseconds patience);
  // What another rank knows to be confirmed.
  void acknowledge(int64_t step);
  int64_t acknowledged() const;

  StepHistory history() const;
  // The job goes on from `step`; hashes of later steps are of the past.
  void replace_history(StepHistory history, int64_t step);
  void forget();  // the job is released

  // Both report every step committed so far first. False: interrupted.
  bool finish(int64_t step, const std::string& hash, Interrupt& interrupt);
  bool fail(int64_t step, const std::string& reason, Interrupt& interrupt);

 private:
  void send_all();
  bool has_news() const;  // with the lock held, as the ones below
  rendezvous::Progress next_report() const;
  void note_sent(const rendezvous::Progress& sent);
  bool send_last(rendezvous::Progress last, Interrupt& interrupt);

  ServiceLink& link_;
  Interrupt stop_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false, reports_ = false;
  std::string job_;
  int64_t generation_ = 0;
  int64_t refused_generation_ = 0;  // whose refusal was logged
  StepHistory history_;
  std::string hash_;
  int64_t hash_step_ = -1;
  bool hash_sent_ = true;
  std::optional<rendezvous::Progress> last_;  // finished or failed
  bool last_sent_ = false;
  std::thread sender_;
};

}  // namespace holdfast::worker
