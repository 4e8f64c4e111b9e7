// Committed steps on their way to the service.
//
// Promises: a committed step is never lost while one rank of the job lives: every rank keeps it until the service has
// confirmed it (StepHistory), and only the reporting rank sends; at most ten reports a second. `finish` and `fail` return
// when the service has answered, however long it is away, when they are interrupted, or when their caller gives up; the end is
// then said again every second for as long as the generation lasts.
// Thread: any for the callers (the train thread, the checkpoint thread); its own sends.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "worker/link/service_link.h"
#include "worker/link/unreported_progress.h"

namespace holdfast::worker {

class ProgressReporter {
 public:
  explicit ProgressReporter(ServiceLink& link);
  ~ProgressReporter();

  // A generation begins; `reports`: this is rank 0. `division`: of the state, where it is divided.
  void begin(const std::string& job, int64_t generation, bool reports,
             std::optional<rendezvous::StateDivision> division = std::nullopt);
  // From now on the state is divided like this.
  void divided(std::optional<rendezvous::StateDivision> division);
  // The generation is over: nothing is sent until the next one begins.
  void end();

  void committed(rendezvous::StepPoint point);
  // The hash goes with the next report.
  void hashed(int64_t step, const std::string& hash);
  // Waits until the service knows every step up to `step`. False: it did not within `patience`, or the interrupt was raised.
  bool drain(int64_t step, Interrupt& interrupt, std::chrono::milliseconds patience);
  // Another rank knows that the service has confirmed the steps up to `step`.
  void acknowledge(int64_t step);
  int64_t acknowledged() const;

  StepHistory history() const;
  StepHistory valid_history(std::span<const rendezvous::GenerationBegin> began) const;  // as UnreportedProgress
  // The job goes on from `step`; hashes of later steps do not count any more.
  void replace_history(StepHistory history, int64_t step);
  void forget();  // the job is released

  // Called, with nullptr to end that, by the sending thread when the service refuses the end of the job because it does not
  // know the last checkpoint: its database was put back from an older copy. It must not call this object. The last one that was
  // set counts.
  void on_checkpoint_unknown(std::function<void()> call);

  // Asked ten times a second, by the waiting thread and without a lock.
  using GivesUp = std::function<bool()>;
  // Both first report every step committed so far. False: interrupted, or given up.
  bool finish(
      int64_t step, const std::string& hash, Interrupt& interrupt, const GivesUp& gives_up = [] { return false; });
  bool fail(
      int64_t step, const std::string& reason, Interrupt& interrupt, const GivesUp& gives_up = [] { return false; });

 private:
  void send_all();
  bool wait_for_report(std::unique_lock<std::mutex>& lock);
  bool wait_for_answer(Interrupt& interrupt, const GivesUp& gives_up, const std::function<void()>& say);

  ServiceLink& link_;
  Interrupt stop_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  int64_t refused_generation_ = 0;  // the generation for which a refusal was logged
  UnreportedProgress progress_;
  std::function<void()> on_checkpoint_unknown_;
  std::thread sender_;
};

}  // namespace holdfast::worker
