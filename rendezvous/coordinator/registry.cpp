#include "rendezvous/coordinator/registry.h"

#include <fmt/format.h>

#include <algorithm>

#include "rendezvous/coordinator/persistence.h"
#include "rendezvous/membership/growing_pause.h"

namespace holdfast::rendezvous {

Job& Registry::add(std::unique_ptr<Job> job) {
  Job& added = *job;
  jobs_by_id_[added.id] = &added;
  if (!is_ended(added.membership->state)) live_jobs_[added.number] = &added;
  jobs_[added.number] = std::move(job);
  return added;
}

Job* Registry::find_job(const std::string& id) {
  const auto found = jobs_by_id_.find(id);
  return found == jobs_by_id_.end() ? nullptr : found->second;
}

const Job* Registry::find_job(const std::string& id) const {
  const auto found = jobs_by_id_.find(id);
  return found == jobs_by_id_.end() ? nullptr : found->second;
}

void Registry::drop_ended_jobs() {
  std::erase_if(live_jobs_, [](const auto& entry) { return is_ended(entry.second->membership->state); });
}

void Registry::save(Job& job) {
  JobRow row = row_of(job);
  if (row == job.saved) return;
  // The runtime grows all the time; that alone causes no write, so it is set only now.
  job.runtime.saved_ran_ms = job.runtime.ran_ms;
  job.runtime.saved_at_ms = wall_ms();
  row = row_of(job);
  journal_.write().save_job(row);
  job.saved = std::move(row);
}

int64_t Registry::next_job_number() const {
  return std::max(reserved_number_, jobs_.empty() ? 0 : jobs_.rbegin()->first) + 1;
}

std::string Registry::next_job_id() const {
  return fmt::format("j{}", next_job_number());
}

void Registry::reserve_job_number(int64_t number) {
  reserved_number_ = std::max(reserved_number_, number);
}

Worker* Registry::find_worker(const std::string& name) {
  const auto found = workers_.find(name);
  return found == workers_.end() ? nullptr : &found->second;
}

void Registry::save(const Worker& worker) {
  journal_.write().save_worker(row_of(worker));
}

void Registry::refuse(Job& job, RefusalRow row, bool for_good) {
  constexpr Millis kFirstPauseMs = 60'000, kLongestPauseMs = 600'000;
  const auto last = job.refusals.find(row.worker);
  const bool again = last != job.refusals.end() && last->second.row.incarnation == row.incarnation;
  const int64_t times = again ? last->second.times + 1 : 1;
  const std::string worker = row.worker;
  const Millis until_ms = for_good ? INT64_MAX : now() + growing_pause(kFirstPauseMs, kLongestPauseMs, times);
  job.refusals[worker] = {std::move(row), times, until_ms};
}

const RefusedWorker* Registry::refusal_of(const Job& job, const std::string& name) const {
  const auto refusal = job.refusals.find(name);
  const auto worker = workers_.find(name);
  const bool in_force = refusal != job.refusals.end() && worker != workers_.end() && now() < refusal->second.until_ms &&
                        worker->second.registration.incarnation == refusal->second.row.incarnation;
  return in_force ? &refusal->second : nullptr;
}

void Registry::touch(const std::string& name) {
  touched_.insert(name);
  ask_for_plan();
  if (Worker* worker = find_worker(name)) worker->tag.clear();
}

}  // namespace holdfast::rendezvous
