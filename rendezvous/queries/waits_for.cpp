#include "rendezvous/queries/waits_for.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "rendezvous/scheduler/requirements.h"
#include "rendezvous/text/time_text.h"

namespace holdfast::rendezvous {
namespace {

using Json = nlohmann::json;

constexpr size_t kNamedMax = 8;  // most workers or jobs that a sentence names; the lists in the answer have all

using Busy = WaitingRoom::Busy;

// Calls `each` with (job, Busy) for every other job that has workers which this job could use.
template <typename Each>
void each_busy(const WaitingRoom& room, const Job& job, const Each& each) {
  std::map<std::string, int64_t> refused;  // by other job: the number of its workers that this job has refused
  for (const auto& [id, refusal] : job.refusals) {
    const auto worker = room.state().workers().find(id);
    if (room.state().refusal_of(job, id) == nullptr || worker->second.life != Worker::Life::kAlive) continue;
    if (satisfies(worker->second.registration, job.membership->spec.requirements)) ++refused[worker->second.job];
  }
  for (const auto& [id, all] : room.competition_for(job.membership->spec.requirements).busy) {
    if (id == job.id) continue;
    const auto found = refused.find(id);
    const Busy useful{all.priority, all.workers - (found == refused.end() ? 0 : found->second)};
    if (useful.workers > 0) each(id, useful);
  }
}

std::string busy_in_words(const WaitingRoom& room, const Job& job) {
  int64_t all = 0;
  size_t count = 0;
  std::vector<std::string> jobs;
  each_busy(room, job, [&](const std::string& id, const Busy& one) {
    all += one.workers;
    if (++count <= kNamedMax) jobs.push_back(fmt::format("{} has {}", id, one.workers));
  });
  if (all == 0) return "";
  if (count > jobs.size()) jobs.push_back(fmt::format("{} more jobs have the rest", count - jobs.size()));
  return fmt::format("; {} {} busy: {}", all, all == 1 ? "is" : "are", fmt::join(jobs, ", "));
}

// Why the job was set aside: it was preempted, or is to be tried again.
std::string set_aside_now(const WaitingRoom& room, const JobMembership& m) {
  std::string text = set_aside_in_words(m);
  if (m.preempted_by.empty()) return text;
  const Job* by = room.state().find_job(m.preempted_by);
  return by == nullptr || is_ended(by->membership->state) ? text + ", which has ended since" : text;
}

std::string text_for_workers(const WaitingRoom& room, const Job& job) {
  const JobMembership& m = job.membership;
  const std::string before = is_set_aside(m) ? set_aside_in_words(m) : "";
  const std::string now = before.empty() ? "" : set_aside_now(room, m);
  if (!job.shortage) {  // it has enough workers, and they are getting ready
    const bool says_so = !before.empty() && m.reason.starts_with(before);
    return says_so ? now + m.reason.substr(before.size()) : m.reason;
  }
  std::string text = now.empty() ? "" : now + ": ";
  text += in_words(*job.shortage);
  const std::string& unsatisfied = room.competition_for(m.spec.requirements).unsatisfied;
  if (!unsatisfied.empty()) text += "; " + unsatisfied;
  text += busy_in_words(room, job);
  size_t told = 0;
  for (const auto& [worker, why] : job.shortage->refused) {
    if (++told <= kNamedMax) text += fmt::format("; {} is refused: {}", worker, why);
  }
  if (told > kNamedMax) text += fmt::format("; {} more are refused", told - kNamedMax);
  return text;
}

Json for_workers(const WaitingRoom& room, const Job& job) {
  const JobMembership& m = job.membership;
  const bool preempted = !m.preempted_by.empty();
  const auto ready = static_cast<int64_t>(m.participants.size());
  const Shortage shortage = job.shortage.value_or(Shortage{m.min_nodes, std::min(ready, m.min_nodes)});
  Json json = {{"kind", preempted ? "preemption" : "workers"},
               {"needed", shortage.needed},
               {"there", shortage.there},
               {"missing", shortage.needed - shortage.there},
               {"on_the_way", shortage.on_the_way},
               {"refused", Json::array()},
               {"unsatisfied", nullptr},
               {"busy", Json::array()},
               {"text", text_for_workers(room, job)}};
  if (preempted) {
    json["job"] = m.preempted_by;
    json["priority"] = m.preemptor_priority;
  }
  if (!job.shortage) return json;
  const std::string& unsatisfied = room.competition_for(m.spec.requirements).unsatisfied;
  if (!unsatisfied.empty()) json["unsatisfied"] = unsatisfied;
  each_busy(room, job, [&](const std::string& id, const Busy& one) {
    json["busy"].push_back({{"job", id}, {"priority", one.priority}, {"workers", one.workers}});
  });
  for (const auto& [worker, why] : shortage.refused) json["refused"].push_back({{"worker", worker}, {"reason", why}});
  return json;
}

std::string text_for_predecessor(const WaitingRoom& room, const Job& job) {
  const Job* first = room.state().find_job(job.after);
  std::string text = fmt::format("waiting for job {} to succeed", job.after);
  if (first == nullptr) return text;
  const JobMembership& m = first->membership;
  const std::string of = m.total_steps() > 0 ? fmt::format(" of {}", m.total_steps()) : "";
  return text + fmt::format(", which is {} at step {}{}", job_state_name(m.state), m.committed_step, of);
}

std::string text_for_retry(const Job& job) {
  return fmt::format("{} begins at {}", set_aside_in_words(job.membership), time_text(job.retry_at_ms));
}

enum class Wait { kNone, kJob, kRetry, kWorkers };

Wait wait_of(const WaitingRoom& room, const Job& job) {
  const JobState now = job.membership->state;
  if (now != JobState::kQueued && now != JobState::kWaiting) return Wait::kNone;
  if (is_held_by_another(job)) return Wait::kJob;
  return retry_in_ms(job, room.state().wall_ms()) > 0 ? Wait::kRetry : Wait::kWorkers;
}

}  // namespace

const WaitingRoom::Competition& WaitingRoom::competition_for(const Labels& requirements) const {
  const auto known = competitions_.find(requirements);
  if (known != competitions_.end()) return known->second;
  Competition& found = competitions_[requirements];
  std::vector<const RegisterRequest*> present;
  for (const auto& [id, worker] : state_.workers()) {
    if (worker.life != Worker::Life::kAlive || !worker.registration.only_job.empty()) continue;
    if (!worker.leaving()) present.push_back(&worker.registration);
    const Job* job = worker.job.empty() ? nullptr : state_.find_job(worker.job);
    if (job == nullptr || !satisfies(worker.registration, requirements)) continue;
    Busy& busy = found.busy[job->id];
    busy.priority = job->membership->spec.priority;
    ++busy.workers;
  }
  found.unsatisfied = unsatisfied_in_words(requirements, present);
  return found;
}

Json waits_for(const WaitingRoom& room, const Job& job) {
  const JobMembership& m = job.membership;
  switch (wait_of(room, job)) {
    case Wait::kNone:
      break;
    case Wait::kJob:
      return {{"kind", "job"}, {"job", job.after}, {"text", text_for_predecessor(room, job)}};
    case Wait::kRetry:
      return {{"kind", "retry"},
              {"retry", m.retries},
              {"retries", m.spec.retries},
              {"at", job.retry_at_ms == 0 ? nlohmann::json() : nlohmann::json(time_text(job.retry_at_ms))},
              {"text", text_for_retry(job)}};
    case Wait::kWorkers:
      return for_workers(room, job);
  }
  return nullptr;
}

std::string reason_of(const WaitingRoom& room, const Job& job) {
  switch (wait_of(room, job)) {
    case Wait::kNone:
      break;
    case Wait::kJob:
      return text_for_predecessor(room, job);
    case Wait::kRetry:
      return text_for_retry(job);
    case Wait::kWorkers:
      return text_for_workers(room, job);
  }
  return job.membership->reason;
}

}  // namespace holdfast::rendezvous
