// Retries: a job that failed begins again from its newest committed checkpoint, after a pause that doubles.
//
// Not after a failure that would come again for sure: max_runtime that is over; a job before it (`after`) that failed; and in
// an exact job numbers that led to the same failure after the same step before, for its bits would be the same again. (Once
// they are tried again, because a device may have computed wrong.)
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "rendezvous/membership/turn.h"
#include "rendezvous/text/plural.h"

namespace holdfast::rendezvous {
namespace {

constexpr int64_t kDelayMaxMs = 24 * 3600 * 1000;

// Before the retry of this number: retry_delay, doubled for each one before it.
int64_t delay_ms(const JobSpec& spec, int64_t number) {
  const double ms = spec.retry_delay * 1000 * std::exp2(static_cast<double>(std::min<int64_t>(number - 1, 40)));
  return std::llround(std::min(ms, static_cast<double>(kDelayMaxMs)));
}

std::string from_where(const JobMembership& job) {
  const int64_t kept = kept_step(job);
  return kept > 0 ? fmt::format("from the checkpoint of step {}", kept) : "from the beginning";
}

}  // namespace

void fail(Turn& turn, const std::string& reason, bool computed) {
  JobMembership& job = turn.job;
  const bool again = job.failed_step == job.committed_step && job.failure == reason;
  const bool for_sure = computed && again && job.spec.reduction == "exact";
  job.failure = reason;
  job.failed_step = job.committed_step;
  if (job.retries >= job.spec.retries || for_sure || job.intent == Intent::kStop) {
    const bool left = job.retries < job.spec.retries && for_sure;
    const std::string tried = job.retries == 0 ? "" : fmt::format("; after {}", counted(job.retries, "retry", "retries"));
    return end_job(turn, JobState::kFailed,
                   fmt::format("{}{}{}{}", reason, tried,
                               left ? ", it is not tried again: at the same step it failed in the same way before" : "",
                               where_to_resume(job)));
  }
  ++job.retries;
  const int64_t delay = delay_ms(job.spec, job.retries);
  const std::string retry = fmt::format("retry {} of {}", job.retries, job.spec.retries);
  begin_anew(turn, retry);
  // The workers' states may be the cause: nothing but a checkpoint counts from here on.
  ++job.lineage;
  job.retry_pending = true;
  job.state = JobState::kQueued;
  if (job.intent == Intent::kPreempt) job.intent = Intent::kRun;
  job.preempted_by.clear();
  job.reason = set_aside_in_words(job);
  turn.effects.emplace_back(RetryPlanned{delay});
  turn.note("job_retries", fmt::format("failed after step {}: {}; {} begins in {:g} s, {}", job.committed_step, reason, retry,
                                       static_cast<double>(delay) / 1000, from_where(job)));
  free_all(turn, fmt::format("job {} failed and is tried again", job.job));
  if (job.intent == Intent::kPause) finish_pause(turn);
}

}  // namespace holdfast::rendezvous
