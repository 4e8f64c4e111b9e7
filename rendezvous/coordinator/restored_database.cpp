#include "rendezvous/coordinator/restored_database.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "rendezvous/coordinator/queue.h"

namespace holdfast::rendezvous {
namespace {

constexpr int64_t kNumberMax = int64_t{1} << 40;  // no real number is larger

// The number in a job's id: 12 for "j12"; 0 if the text is not a job's id.
int64_t number_of(const std::string& job) {
  int64_t number = 0;
  if (job.size() < 2 || job[0] != 'j') return 0;
  const auto [end, error] = std::from_chars(job.data() + 1, job.data() + job.size(), number);
  return error == std::errc() && end == job.data() + job.size() && number < kNumberMax ? number : 0;
}

}  // namespace

void RestoredDatabase::reserve_id(const std::string& job) {
  registry_.reserve_job_number(number_of(job));
}

void RestoredDatabase::data_is_back(const std::string& id) {
  for (auto& [worker, refusal] : registry_.find_job(id)->refusals) {
    refusal.row.incarnation.clear();  // as if another life of the worker had been refused
    journal_.write().save_refusal(refusal.row);
  }
  registry_.ask_for_plan();
}

void RestoredDatabase::report_stray_checkpoints(const std::string& job, const std::string& folder) {
  journal_.record(
      {"database_older",
       fmt::format(
           "{} holds checkpoints of job {}, which this database does not know: it was restored from an older copy. They "
           "stay, and a new job can go on from them with --resume_from {}",
           folder, job, folder)});
}

void RestoredDatabase::adopt_checkpoints(const std::string& id, const std::vector<CheckpointRecord>& found, Adopt which) {
  Job& job = *registry_.find_job(id);
  const JobMembership& m = job.membership;
  CheckpointsFound input;
  for (const CheckpointRecord& record : found) input.generation = std::max(input.generation, record.generation);
  // A checkpoint of a known generation is left to its writer, which will still report it; but not after a restore, where the
  // writer may have told the database that was replaced.
  const bool newer = input.generation > m.current.number;
  if (is_ended(m.state) || (!newer && which != Adopt::kAll) || input.generation > kNumberMax) return;
  for (const CheckpointRecord& record : found) {
    if (stale_state(m, record)) continue;
    input.checkpoints.push_back({record.step, record.store, record.state_hash, false});
    job.checkpoints[record.step] = record;
    journal_.write().save_checkpoint({id, record, false});
  }
  if (!input.checkpoints.empty()) decisions_.apply(job, input);
}

void RestoredDatabase::note_unknown_job(const Worker& worker) {
  const WorkerStatus& status = worker.status;
  reserve_id(status.job);
  if (!unknown_jobs_.insert(fmt::format("{} {}", status.job, status.job_born)).second) return;
  journal_.record(
      {"database_older",
       fmt::format(
           "{} works for {} {} (generation {}{}), which this database does not know: it was restored from an older copy. "
           "The worker is told to drop the job; checkpoints of it stay where they are, and a new job can go on from "
           "them with --resume_from FOLDER",
           worker.registration.name, registry_.find_job(status.job) == nullptr ? "job" : "another job", status.job,
           status.generation, status.step < 0 ? "" : fmt::format(", step {}", status.step)),
       "", worker.registration.name});
}

void RestoredDatabase::notice_newer(Worker& worker) {
  const WorkerStatus& status = worker.status;
  if (status.job.empty() || status.generation > kNumberMax) return;
  Job* job = registry_.find_job(status.job);
  if (job == nullptr || !speaks_of(job->membership, status)) return note_unknown_job(worker);
  if (status.generation > job->membership->current.number) decisions_.apply(*job, NewerSeen{worker.registration.name, status});
  const JobMembership& m = job->membership;
  // Without a state it would begin the job, though the database has it wait for another one.
  const bool begins_too_early = is_held_by_another(*job) && status.step < 0;
  const bool adopted = is_outrun(m) && !is_ended(m.state) && m.state != JobState::kPaused && worker.job != job->id &&
                       status.generation > 0 && !begins_too_early &&
                       registry_.refusal_of(*job, worker.registration.name) == nullptr;
  if (!adopted) return;
  if (Job* other = registry_.find_job(worker.job)) {
    worker.job.clear();
    decisions_.apply(*other, WorkerGone{worker.registration.name, fmt::format("it works for job {} now", job->id)});
  }
  decisions_.assign(worker, *job);
}

}  // namespace holdfast::rendezvous
