#include "rendezvous/waits_for.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "rendezvous/scheduler_requirements.h"
#include "rendezvous/views.h"

namespace holdfast::rendezvous {
namespace {

using Json = nlohmann::json;

constexpr size_t kNamedMax = 8;  // workers and jobs that a sentence names; the lists have all

struct Busy {
  int64_t priority = 0, workers = 0;
};

std::vector<const RegisterRequest*> present(const Coordinator& state) {
  std::vector<const RegisterRequest*> all;
  for (const auto& [id, worker] : state.workers()) {
    if (worker.life == Worker::Life::kAlive && !worker.leaving()) all.push_back(&worker.registration);
  }
  return all;
}

// Workers that this job could use and others have.
std::map<std::string, Busy> busy_with_others(const Coordinator& state, const Job& job) {
  std::map<std::string, Busy> busy;
  for (const auto& [id, worker] : state.workers()) {
    const Job* other = state.find_job(worker.job);
    if (worker.life != Worker::Life::kAlive || other == nullptr || other == &job) continue;
    if (state.refusal_of(job, id) != nullptr || !satisfies(worker.registration, job.membership.spec.requirements)) continue;
    Busy& one = busy[other->id];
    one.priority = other->membership.spec.priority;
    ++one.workers;
  }
  return busy;
}

std::string busy_in_words(const std::map<std::string, Busy>& busy) {
  int64_t all = 0;
  std::vector<std::string> jobs;
  for (const auto& [id, one] : busy) {
    all += one.workers;
    if (jobs.size() < kNamedMax) jobs.push_back(fmt::format("{} has {}", id, one.workers));
  }
  if (busy.size() > jobs.size()) jobs.push_back(fmt::format("{} more jobs have the rest", busy.size() - jobs.size()));
  return fmt::format("; {} {} busy: {}", all, all == 1 ? "is" : "are", fmt::join(jobs, ", "));
}

Json for_workers(const Coordinator& state, const Job& job) {
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
               {"busy", Json::array()}};
  std::string text = is_set_aside(m) ? set_aside_in_words(m) + ": " : "";
  if (preempted) {
    json["job"] = m.preempted_by;
    json["priority"] = m.preemptor_priority;
  }
  if (!job.shortage) {  // it has enough, and they are getting ready
    json["text"] = m.reason;
    return json;
  }
  text += in_words(shortage);
  if (const std::string unsatisfied = unsatisfied_in_words(m.spec.requirements, present(state)); !unsatisfied.empty()) {
    json["unsatisfied"] = unsatisfied;
    text += "; " + unsatisfied;
  }
  const auto busy = busy_with_others(state, job);
  for (const auto& [id, one] : busy)
    json["busy"].push_back({{"job", id}, {"priority", one.priority}, {"workers", one.workers}});
  if (!busy.empty()) text += busy_in_words(busy);
  for (const auto& [worker, why] : shortage.refused) {
    json["refused"].push_back({{"worker", worker}, {"reason", why}});
    if (json["refused"].size() <= kNamedMax) text += fmt::format("; {} is refused: {}", worker, why);
  }
  if (json["refused"].size() > kNamedMax) text += fmt::format("; {} more are refused", json["refused"].size() - kNamedMax);
  json["text"] = text;
  return json;
}

Json for_predecessor(const Coordinator& state, const Job& job) {
  const Job* first = state.find_job(job.after);
  std::string text = fmt::format("waiting for job {} to succeed", job.after);
  if (first != nullptr) {
    const JobMembership& m = first->membership;
    text += fmt::format(", which is {} at step {} of {}", job_state_name(m.state), m.committed_step, m.spec.total_steps);
  }
  return {{"kind", "job"}, {"job", job.after}, {"text", text}};
}

Json for_retry(const Job& job) {
  const JobMembership& m = job.membership;
  return {{"kind", "retry"},
          {"retry", m.retries},
          {"retries", m.spec.retries},
          {"at", time_text(job.retry_at_ms)},
          {"text", fmt::format("{} begins at {}", set_aside_in_words(m), time_text(job.retry_at_ms).get<std::string>())}};
}

}  // namespace

Json waits_for(const Coordinator& state, const Job& job) {
  const JobState now = job.membership.state;
  if (now != JobState::kQueued && now != JobState::kWaiting) return nullptr;
  if (Coordinator::is_held_by_another(job)) return for_predecessor(state, job);
  if (state.retry_in_ms(job) > 0) return for_retry(job);
  return for_workers(state, job);
}

std::string reason_of(const Coordinator& state, const Job& job) {
  const Json waits = waits_for(state, job);
  return waits.is_null() ? job.membership.reason : waits["text"].get<std::string>();
}

}  // namespace holdfast::rendezvous
