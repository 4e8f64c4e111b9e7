// Progress of a job that its service has not confirmed yet, and the report that is due next: pure, without clock and sender.
//
// Promises: a report has at most `points_per_report` steps, the oldest first, and fewer where each has many shares, so that the
// service takes it; the end of the job comes when every step is confirmed.
// The end is said again for as long as the generation lasts: a service whose database was put back from an older copy does
// not know any more what it has answered.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "rendezvous/protocol/messages.h"
#include "worker/link/step_history.h"

namespace holdfast::worker {

class UnreportedProgress {
 public:
  explicit UnreportedProgress(size_t points_per_report) : points_per_report_(points_per_report) {}

  // A generation begins; `reports`: this is rank 0. `division`: of the state, where it is divided.
  void begin(const std::string& job, int64_t generation, bool reports,
             std::optional<rendezvous::StateDivision> division = std::nullopt);
  void divided(std::optional<rendezvous::StateDivision> division) { division_ = std::move(division); }
  // The generation is over: nothing is reported until the next one begins.
  void end();
  void forget();  // the job is released

  void committed(rendezvous::StepPoint point) { history_.add(std::move(point)); }
  void hashed(int64_t step, const std::string& hash);
  void acknowledge(int64_t step) { history_.acknowledge(step); }
  int64_t take_dropped() { return history_.take_dropped(); }
  // The job goes on from `step`; hashes of later steps do not count any more.
  void replace_history(StepHistory history, int64_t step);
  void finish(int64_t step, const std::string& hash);
  void fail(int64_t step, const std::string& reason);

  const std::string& job() const { return job_; }
  int64_t generation() const { return generation_; }
  const StepHistory& history() const { return history_; }
  // The part of the history that is still the job's, where generations began without this worker (Directive::began): they may
  // have computed its steps anew, or with other shares. Where it is not known how all of them began, nothing is.
  StepHistory valid_history(std::span<const rendezvous::GenerationBegin> began) const;
  // Whether the service knows every step up to `step`, as far as this worker can tell.
  bool knows(int64_t step) const { return history_.empty() || history_.acknowledged() >= step; }

  bool has_news() const { return reports_ && (!history_.empty() || !hash_sent_ || (last_ && !last_sent_)); }
  // Whether nothing is left to say but what was confirmed once: the end of the job.
  bool may_repeat_end() const;
  bool end_is_confirmed() const { return last_ && last_sent_; }
  // Without the name and the incarnation of the worker.
  rendezvous::Progress next_report() const;
  // The service has confirmed `sent`, which was a report on `job`.
  void note_sent(const std::string& job, const rendezvous::Progress& sent);

 private:
  void set_last(rendezvous::Progress last);

  size_t points_per_report_;
  bool reports_ = false;
  bool replaced_ = false;  // the history, since the last generation began: no answer is about it
  std::string job_;
  int64_t generation_ = 0;
  std::optional<rendezvous::StateDivision> division_;
  StepHistory history_;
  std::string hash_;
  int64_t hash_step_ = -1;
  bool hash_sent_ = true;
  std::optional<rendezvous::Progress> last_;  // finished or failed
  bool last_sent_ = false;
};

}  // namespace holdfast::worker
