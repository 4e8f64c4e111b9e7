#include "rendezvous/coordinator/persistence.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "rendezvous/coordinator/queue.h"
#include "rendezvous/store/kept_fields.h"
#include "rendezvous/store/stored_json.h"

namespace holdfast::rendezvous {
namespace {

constexpr const char* kLives[] = {"alive", "lost", "left"};

template <typename Enum, size_t N>
Enum parse(const std::string& text, const char* const (&names)[N]) {
  for (size_t i = 0; i < N; ++i) {
    if (text == names[i]) return static_cast<Enum>(i);
  }
  throw StoreError(fmt::format("the database holds the unknown word \"{}\"", text));
}

}  // namespace

JobRow row_of(const Job& job) {
  JobRow row;
  row.number = job.number;
  row.name = job.membership->spec.name;
  row.spec = job.saved.spec;
  keep_columns(*job.membership, row);
  row.started_ms = job.started_ms;
  row.finished_ms = job.finished_ms;
  if (job.loss) row.loss = stored_number(*job.loss);
  if (job.validation_loss) row.validation_loss = stored_number(*job.validation_loss);
  row.state_hash = job.state_hash;
  row.state_hash_step = job.state_hash_step;
  row.refused_steps = job.refused_steps;
  row.queueing = queueing_text(job);
  return row;
}

WorkerRow row_of(const Worker& worker) {
  return {worker.registration,    kLives[static_cast<size_t>(worker.life)],
          worker.draining,        worker.job,
          worker.last_job,        worker.after_generation,
          worker.lost_generation, worker.seen_ms,
          worker.losses,          worker.log_batch};
}

namespace {

// The rows of one job.
struct JobRows {
  const JobRow* row = nullptr;
  KeptMembership kept;
  std::vector<KeptWorker> workers;
  std::map<int64_t, CheckpointRecord> checkpoints;
};

void restore_job(Registry& registry, JobRows rows) {
  const JobRow& row = *rows.row;
  auto job = std::make_unique<Job>();
  job->id = row.id;
  job->number = row.number;
  job->submitted_ms = row.submitted_ms;
  job->started_ms = row.started_ms;
  job->finished_ms = row.finished_ms;
  if (row.loss) job->loss = number_from_stored(*row.loss);
  if (row.validation_loss) job->validation_loss = number_from_stored(*row.validation_loss);
  job->state_hash = row.state_hash;
  job->state_hash_step = row.state_hash_step;
  job->refused_steps = row.refused_steps;
  job->saved = row;
  job->checkpoints = std::move(rows.checkpoints);
  restore_queueing(*job, rows.kept, row.queueing, registry.now(), registry.wall_ms());
  job->membership = restore_membership(std::move(rows.kept), rows.workers, registry.now());
  registry.add(std::move(job));
}

void restore_worker(Registry& registry, const WorkerRow& row, Millis grace_ms) {
  Worker& worker = registry.workers()[row.registration.name];
  worker.registration = row.registration;
  worker.life = parse<Worker::Life>(row.life, kLives);
  worker.draining = row.draining;
  worker.job = row.job;
  worker.last_job = row.last_job;
  worker.after_generation = row.after_generation;
  worker.lost_generation = row.lost_generation;
  worker.losses = row.losses;
  worker.log_batch = row.log_batch;
  // Heartbeats do not write rows: the row of a living worker says when it last changed, not when it was last heard.
  worker.seen_ms = worker.life == Worker::Life::kAlive ? registry.wall_ms() : row.seen_ms;
  worker.heard_ms = registry.now();
  worker.lease_until_ms = registry.now() + grace_ms;
  worker.status.incarnation = row.registration.incarnation;
  worker.status.phase = Phase::kPreparing;  // not free before it says so
}

KeptWorker kept_worker(const WorkerRow& row) {
  const RegisterRequest& r = row.registration;
  return {{r.name, r.incarnation, r.address}, r.numerics, row.after_generation, row.draining};
}

}  // namespace

void load(JobStore& store, Registry& registry, WorkerLives& lives, Millis grace_ms) {
  StoreContents contents = store.load();
  std::map<std::string, JobRows> jobs;
  for (const JobRow& row : contents.jobs) {
    JobRows& job = jobs[row.id];
    job.row = &row;
    read_columns(row, job.kept);
  }
  for (const GenerationRow& row : contents.generations) read_generation(row.generation, jobs.at(row.job).kept);
  for (const CheckpointRow& row : contents.checkpoints) {
    JobRows& job = jobs.at(row.job);
    read_checkpoint(row, job.kept);
    job.checkpoints[row.record.step] = row.record;
  }
  for (const WorkerRow& row : contents.workers) {
    restore_worker(registry, row, grace_ms);
    if (const auto job = jobs.find(row.job); job != jobs.end()) job->second.workers.push_back(kept_worker(row));
  }
  for (const JobRow& row : contents.jobs) restore_job(registry, std::move(jobs.at(row.id)));
  for (const RefusalRow& row : contents.refusals) registry.refuse(*registry.find_job(row.job), row, true);
  lives.restore(std::move(contents.ended_incarnations));
}

}  // namespace holdfast::rendezvous
