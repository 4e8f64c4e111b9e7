// Preemption: a job gives up all its workers for one of higher priority, and comes back by itself.
//
// Promises: no committed step is lost by it. The job stops after the step under way and writes a checkpoint first, as for a
// pause; where that cannot be had it keeps its workers, and is left alone for a while that doubles each time. It ends in either
// way, whatever the store and the workers do. Then it waits in the queue like any other job.
#include <fmt/format.h>

#include <algorithm>

#include "rendezvous/membership/turn.h"

namespace holdfast::rendezvous {
namespace {

constexpr Millis kUndisturbedMs = 5 * 60'000;  // after a preemption that failed, and twice as long after each further one
constexpr int64_t kDoublingsMax = 8;           // to 21 hours
constexpr Millis kPreemptMaxMs = 5 * 60'000;   // until the job yields for it

}  // namespace

// The committed step counts, too: a worker that is silent now may come back with it in its memory.
bool is_written_down(const JobMembership& job) {
  const int64_t committed = job.retry_pending ? -1 : job.committed_step;  // a retry begins from what is written down
  return std::max(best_memory(job, true), committed) <= kept_step(job);
}

bool is_preemptible(const JobMembership& job, Millis now) {
  if (is_ended(job.state) || job.state == JobState::kPaused || job.intent != Intent::kRun) return false;
  if (is_outrun(job) || now < job.preemptible_ms || job.participants.empty()) return false;
  return job.state == JobState::kRunning || is_written_down(job);
}

std::string preemption_in_words(const JobMembership& job) {
  return fmt::format("preempted by {} (priority {})", job.preempted_by, job.preemptor_priority);
}

void on_preempt(Turn& turn, const PreemptAsked& input) {
  JobMembership& job = turn.job;
  if (!is_preemptible(job, turn.now)) return;
  job.intent = Intent::kPreempt;
  job.preempt_since_ms = turn.now;
  job.preempted_by = input.by;
  job.preemptor_priority = input.priority;
  turn.note("preemption_asked", fmt::format("job {} (priority {}) needs the workers of this one (priority {}) to begin",
                                            input.by, input.priority, job.spec.priority));
}

// A yield under way ends as it began.
void on_preempt_withdrawn(Turn& turn) {
  JobMembership& job = turn.job;
  if (job.intent != Intent::kPreempt || job.stage == Stage::kYielding || is_ended(job.state)) return;
  job.intent = Intent::kRun;
  turn.note("preemption_withdrawn",
            fmt::format("the job keeps its workers: job {} does not need them any more", job.preempted_by));
  job.preempted_by.clear();
}

void finish_preemption(Turn& turn) {
  JobMembership& job = turn.job;
  commit_up_to(turn, best_memory(job, true));
  const std::string words = preemption_in_words(job);
  begin_anew(turn, "the job was " + words);
  job.intent = Intent::kRun;
  job.state = job.current.number > 0 ? JobState::kWaiting : JobState::kQueued;
  job.reason = words;
  job.handover_failed = false;
  job.preemptions_failed = 0;
  ++job.preemptions;
  turn.note("job_preempted", fmt::format("{}{}: it goes on by itself when there are workers for it", words,
                                         job.spec.serves() ? "" : fmt::format(" at step {}", job.committed_step)));
  free_all(turn, fmt::format("job {} is {}", job.job, words));
}

void call_off_preemption(Turn& turn, const std::string& why) {
  JobMembership& job = turn.job;
  const Millis pause_ms = kUndisturbedMs << std::min(job.preemptions_failed, kDoublingsMax);
  ++job.preemptions_failed;
  job.intent = Intent::kRun;
  job.preemptible_ms = turn.now + pause_ms;
  turn.note("preemption_failed", fmt::format("the job keeps its workers: {}. It is asked again in {} minutes, if job {} still "
                                             "needs them",
                                             why, pause_ms / 60'000, job.preempted_by));
  job.preempted_by.clear();
}

void bound_preemption(Turn& turn) {
  JobMembership& job = turn.job;
  if (job.intent != Intent::kPreempt) return;
  if (job.preempt_since_ms < 0) job.preempt_since_ms = turn.now;  // the service was started since
  if (turn.now < job.preempt_since_ms + kPreemptMaxMs) return;
  call_off_preemption(
      turn, fmt::format("no generation of it was ready to write a checkpoint for {} minutes", kPreemptMaxMs / 60'000));
}

}  // namespace holdfast::rendezvous
