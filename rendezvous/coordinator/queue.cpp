#include "rendezvous/coordinator/queue.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "rendezvous/protocol/messages.h"
#include "rendezvous/protocol/rules/schedule.h"
#include "rendezvous/store/kept_fields.h"

namespace holdfast::rendezvous {
namespace {

using Json = nlohmann::json;

constexpr int64_t kUndisturbedMaxMs = 24 * 3600 * 1000;  // bounds the pause after a failed preemption if the clock is wrong
constexpr int64_t kWholeMaxMs = 5 * 60'000;  // a job over its max_runtime may go on for so long while it does not train

// The text is written anew at each step, so it holds only the fields that differ from those of a fresh job.
template <typename T>
void put(Json& json, const char* name, const T& value, const T& otherwise) {
  if (value != otherwise) json[name] = value;
}

template <typename T>
void fetch(const Json& json, const char* name, T& value) {
  if (const auto found = json.find(name); found != json.end()) value = found->get<T>();
}

// The queue's own fields in the text, the membership's in `kept`: one list for writing and reading.
template <typename Each, typename OfJob, typename Kept>
void walk(OfJob& job, Kept& kept, const Each& each) {
  static const Job fresh{};
  static const KeptMembership fresh_membership{};
  each("after", job.after, fresh.after);
  each("after_done", job.after_done, fresh.after_done);
  each("retry_at_ms", job.retry_at_ms, fresh.retry_at_ms);
  each("retry_delay_ms", job.retry_delay_ms, fresh.retry_delay_ms);
  each("lacks_since_ms", job.lacks_since_wall_ms, fresh.lacks_since_wall_ms);
  each(kPreemptibleField.name, job.preemptible_at_ms, fresh.preemptible_at_ms);
  each("ran_ms", job.runtime.saved_ran_ms, fresh.runtime.saved_ran_ms);
  each("saved_at_ms", job.runtime.saved_at_ms, fresh.runtime.saved_at_ms);
  for_each_kept_queueing_field([&](const auto& row) { each(row.name, kept.*row.field, fresh_membership.*row.field); });
}

}  // namespace

std::string queueing_text(const Job& job) {
  Json json = Json::object();
  walk(job, *job.membership,
       [&](const char* name, const auto& value, const auto& otherwise) { put(json, name, value, otherwise); });
  return json_text(json);
}

void restore_queueing(Job& job, KeptMembership& kept, const std::string& text, Millis now, int64_t wall_ms) {
  const Json json = Json::parse(text);
  walk(job, kept, [&](const char* name, auto& value, const auto&) { fetch(json, name, value); });
  Runtime& runtime = job.runtime;
  runtime.ran_ms = runtime.saved_ran_ms;
  if (kept.state == JobState::kRunning && runtime.saved_at_ms > 0)
    runtime.away_ms = std::max<int64_t>(0, wall_ms - runtime.saved_at_ms);
  if (job.lacks_since_wall_ms > 0) job.lacks_since_ms = now - std::max<int64_t>(0, wall_ms - job.lacks_since_wall_ms);
  const int64_t undisturbed_ms = job.preemptible_at_ms - wall_ms;
  if (undisturbed_ms > 0) kept.preemptible_ms = now + std::min(undisturbed_ms, kUndisturbedMaxMs);
}

// --- running time

void Queue::end_overlong(Job& job) {
  job.runtime.count(registry_.now(), job.membership->state == JobState::kRunning);
  const JobMembership& m = job.membership;
  const int64_t limit_s = m.spec.max_runtime, over_ms = job.runtime.ran_ms - limit_s * 1000;
  if (limit_s == 0 || over_ms < 0 || m.intent == Intent::kStop) return;
  // While a generation ends or forms, no worker could write the last checkpoint.
  if (!is_whole(m) && over_ms < kWholeMaxMs) return;
  decisions_.apply(job, StopAsked{fmt::format("max_runtime of {} s is over", limit_s)});
}

// --- the job's beginning

bool resumes_from(const JobSpec& spec, const std::string& predecessor) {
  if (spec.after.empty()) return false;
  return spec.resume_from == "job:" + predecessor || spec.resume_from == "job:" + spec.after;
}

int64_t retry_in_ms(const Job& job, int64_t wall_ms) {
  if (!job.membership->retry_pending) return 0;
  const int64_t left_ms = job.retry_at_ms - wall_ms;
  return left_ms > job.retry_delay_ms ? 0 : std::max<int64_t>(0, left_ms);  // a clock that was set back delays no job
}

bool Queue::may_begin(const Job& job) const {
  return !is_held_by_another(job) && retry_in_ms(job, registry_.wall_ms()) == 0;
}

void Queue::begin_after(Job& job, const Job& first) {
  const JobMembership& m = job.membership;
  std::string text = fmt::format("job {} has succeeded", first.id);
  if (resumes_from(m.spec, first.id)) {
    const KnownCheckpoint* newest = newest_checkpoint(first.membership);
    if (newest == nullptr)
      return decisions_.apply(job,
                              FailAsked{fmt::format("job {}, from which this one was to go on, has no checkpoint", first.id)});
    if (m.spec.total_steps > 0 && newest->step > m.spec.total_steps) {
      return decisions_.apply(
          job,
          FailAsked{fmt::format(
              "total_steps is {}, and job {}, from which this one was to go on, ended at step {}: submit it again with more",
              m.spec.total_steps, first.id, newest->step)});
    }
    if (m.spec.schedule_start > newest->step) {
      const std::string last = fmt::format("step {} of job {}", newest->step, first.id);
      return decisions_.apply(job, FailAsked{"schedule_start " + beyond_in_words(m.spec.schedule_start, last, newest->step)});
    }
    decisions_.apply(job, SourceGiven{{StateSource::Kind::kCheckpoint, newest->step, first.id, newest->store,
                                       newest->state_hash, first.membership->spec.checkpoint_copy}});
    text += fmt::format(": this one goes on from its checkpoint of step {}", newest->step);
  }
  job.after_done = true;
  journal_.record({"job_released", text, job.id});
  registry_.save(job);
}

void Queue::follow_predecessors() {
  for (const auto& [number, job] : registry_.live_jobs()) {
    if (!is_held_by_another(*job) || is_ended(job->membership->state)) continue;
    const Job* first = registry_.find_job(job->after);
    if (first == nullptr) {
      decisions_.apply(*job, FailAsked{fmt::format("job {}, which this one comes after, is not in the database", job->after)});
    } else if (first->membership->state == JobState::kSucceeded) {
      begin_after(*job, *first);
    } else if (is_ended(first->membership->state)) {
      const char* how = first->membership->state == JobState::kFailed ? "failed" : "was cancelled";
      decisions_.apply(*job, FailAsked{fmt::format("job {}, which this one comes after, {}: {}", first->id, how,
                                                   first->membership->reason)});
    }
  }
}

}  // namespace holdfast::rendezvous
