// Workers that know more than the database, which was restored from an older copy: see membership_restored.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "rendezvous/coordinator.h"

namespace holdfast::rendezvous {
namespace {

constexpr int64_t kNumberMax = int64_t{1} << 40;  // nothing counts so far: a larger one is nonsense

// Of "j12" 12; 0 for what is no job's id.
int64_t number_of(const std::string& job) {
  int64_t number = 0;
  if (job.size() < 2 || job[0] != 'j') return 0;
  const auto [end, error] = std::from_chars(job.data() + 1, job.data() + job.size(), number);
  return error == std::errc() && end == job.data() + job.size() && number < kNumberMax ? number : 0;
}

}  // namespace

int64_t Coordinator::next_job_number() const {
  return std::max(reserved_number_, jobs_.empty() ? 0 : jobs_.rbegin()->first) + 1;
}

void Coordinator::reserve_number_of(const std::string& job) {
  reserved_number_ = std::max(reserved_number_, number_of(job));
}

void Coordinator::note_stray_folder(const std::string& job, const std::string& folder, bool empty) {
  reserve_number_of(job);
  if (empty) return;  // the service was killed between making the folder and the job
  event(
      "", "database_older",
      fmt::format("{} holds checkpoints of job {}, which this database does not know: it was restored from an older copy. They "
                  "stay, and a new job can go on from them with --resume_from {}",
                  folder, job, folder));
}

void Coordinator::note_found_checkpoints(const std::string& id, const std::vector<CheckpointRecord>& found, bool restored) {
  Job& job = *job_of(id);
  const JobMembership& m = job.membership;
  CheckpointsFound input;
  for (const CheckpointRecord& record : found) input.generation = std::max(input.generation, record.generation);
  // The writer of one that is of the present will still say so, unless the database it told was replaced.
  const bool newer = input.generation > m.current.number;
  if (is_ended(m.state) || (!newer && !restored) || input.generation > kNumberMax) return;
  for (const CheckpointRecord& record : found) {
    if (stale_state(m, record)) continue;
    input.checkpoints.push_back({record.step, record.store, record.state_hash, false});
    job.checkpoints[record.step] = record;
    write().save_checkpoint({id, record, false});
  }
  if (!input.checkpoints.empty()) apply(job, input);
}

void Coordinator::note_unknown_job(const Worker& worker) {
  const WorkerStatus& status = worker.status;
  reserve_number_of(status.job);
  if (!unknown_jobs_.insert(fmt::format("{} {}", status.job, status.job_born)).second) return;
  event("", "database_older",
        fmt::format(
            "{} works for {} {} (generation {}{}), which this database does not know: it was restored from an older copy. "
            "The worker is told to drop the job; checkpoints of it stay where they are, and a new job can go on from "
            "them with --resume_from FOLDER",
            worker.registration.name, job_of(status.job) == nullptr ? "job" : "another job", status.job, status.generation,
            status.step < 0 ? "" : fmt::format(", step {}", status.step)),
        worker.registration.name);
}

// Before anything else is made of a status: what it speaks of may be news to the database.
void Coordinator::notice_newer(Worker& worker) {
  const WorkerStatus& status = worker.status;
  if (status.job.empty() || status.generation > kNumberMax) return;
  Job* job = job_of(status.job);
  if (job == nullptr || !speaks_of(job->membership, status)) return note_unknown_job(worker);
  if (status.generation > job->membership.current.number) apply(*job, NewerSeen{worker.registration.name, status});
  const JobMembership& m = job->membership;
  const bool adopted = is_outrun(m) && !is_ended(m.state) && m.state != JobState::kPaused && worker.job != job->id &&
                       status.generation > 0 && refusal_of(*job, worker.registration.name) == nullptr;
  if (!adopted) return;
  if (Job* other = job_of(worker.job)) {
    worker.job.clear();
    apply(*other, WorkerGone{worker.registration.name, fmt::format("it works for job {} now", job->id)});
  }
  assign(worker, *job);
}

}  // namespace holdfast::rendezvous
