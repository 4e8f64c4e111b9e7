#include "rendezvous/coordinator/persistence.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "rendezvous/coordinator/queue.h"
#include "rendezvous/store/stored_json.h"

namespace holdfast::rendezvous {
namespace {

using Json = nlohmann::json;

constexpr const char* kCauses[] = {"start", "fault", "orderly"};
constexpr const char* kIntents[] = {"run", "pause", "stop", "preempt"};
constexpr const char* kLives[] = {"alive", "lost", "left"};

template <typename Enum, size_t N>
Enum parse(const std::string& text, const char* const (&names)[N]) {
  for (size_t i = 0; i < N; ++i) {
    if (text == names[i]) return static_cast<Enum>(i);
  }
  throw StoreError(fmt::format("the database holds the unknown word \"{}\"", text));
}

std::string resume_text(const std::vector<StateSource>& sources) {
  Json json = Json::array();
  for (const StateSource& source : sources) json.push_back(source_to_json(source));
  return json.dump();
}

}  // namespace

JobRow row_of(const Job& job) {
  const JobMembership& m = job.membership;
  JobRow row;
  row.id = job.id;
  row.number = job.number;
  row.name = m.spec.name;
  row.spec = job.saved.spec.empty() ? to_json(m.spec).dump() : job.saved.spec;
  row.state = job_state_name(m.state);
  row.reason = m.reason;
  row.stage = stage_name(m.stage == Stage::kYielding ? Stage::kRunning : m.stage);
  row.cause = kCauses[static_cast<size_t>(m.cause)];
  row.intent = kIntents[static_cast<size_t>(m.intent)];
  row.min_nodes = m.min_nodes;
  row.nodes = m.nodes;
  row.max_nodes = m.max_nodes;
  row.committed_step = m.committed_step;
  row.restarts = m.restarts;
  row.lineage = m.lineage;
  row.data_digest = m.data_digest;
  row.numerics = m.numerics;
  row.resume = resume_text(m.resume);
  row.submitted_ms = job.submitted_ms;
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

void restore_job(Registry& registry, const JobRow& row) {
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
  JobMembership& m = job->membership;
  m.job = row.id;
  m.born = row.submitted_ms;
  m.spec = job_spec_from_json(Json::parse(row.spec));
  m.min_nodes = row.min_nodes;
  m.nodes = row.nodes;
  m.max_nodes = row.max_nodes;
  m.state = job_state_from(row.state);
  m.reason = row.reason;
  m.stage = stage_from(row.stage);
  m.cause = parse<Cause>(row.cause, kCauses);
  m.intent = parse<Intent>(row.intent, kIntents);
  m.committed_step = row.committed_step;
  m.restarts = row.restarts;
  m.lineage = row.lineage;
  m.data_digest = row.data_digest;
  m.numerics = row.numerics;
  for (const Json& source : Json::parse(row.resume)) m.resume.push_back(source_from_json(source));
  m.forming_since_ms = m.formed_ms = registry.now();
  m.counted = true;
  restore_queueing(*job, row.queueing, registry.now(), registry.wall_ms());
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
  Job* job = registry.find_job(worker.job);
  if (job == nullptr) return;
  Participant p;
  p.member = {row.registration.name, row.registration.incarnation, row.registration.address};
  p.numerics = row.registration.numerics;
  p.after_generation = row.after_generation;
  p.seat = rank_in(job->membership.current, p.member.worker, p.member.incarnation);
  p.heard_ms = registry.now();
  p.unheard = true;
  p.wanted = !row.draining;
  p.unwanted_reason = row.draining ? "drained" : "";
  job->membership.participants[row.registration.name] = std::move(p);
}

}  // namespace

void load(JobStore& store, Registry& registry, WorkerLives& lives, Millis grace_ms) {
  StoreContents contents = store.load();
  for (const JobRow& row : contents.jobs) restore_job(registry, row);
  for (const GenerationRow& row : contents.generations) {
    JobMembership& m = registry.find_job(row.job)->membership;
    for (const Member& member : row.generation.members) m.lineage_of[member.incarnation] = row.generation.lineage;
    if (!row.generation.members.empty()) m.began_at[row.generation.number] = row.generation.source.step;
    if (row.generation.members.empty()) m.outrun_to = std::max(m.outrun_to, row.generation.number);
    if (row.generation.number > m.current.number) m.current = row.generation;
  }
  for (const auto& [number, job] : registry.jobs()) {
    // False where no step was committed since the last fault: the next step is then reported as progress_resumed.
    JobMembership& m = job->membership;
    m.resumed_noted = m.cause != Cause::kFault || (m.stage == Stage::kRunning && m.committed_step > m.current.source.step);
  }
  for (const CheckpointRow& row : contents.checkpoints) {
    Job& job = *registry.find_job(row.job);
    job.checkpoints[row.record.step] = row.record;
    job.membership.checkpoints[row.record.step] = {row.record.step, row.record.store, row.record.state_hash, row.unreadable};
    if (row.record.step == job.checkpoints.rbegin()->first)
      job.membership.checkpoint_s = row.record.stall_s + row.record.write_s;
  }
  for (const RefusalRow& row : contents.refusals) registry.find_job(row.job)->refusals[row.worker] = row;
  lives.restore(std::move(contents.ended_incarnations));
  for (const WorkerRow& row : contents.workers) restore_worker(registry, row, grace_ms);
}

}  // namespace holdfast::rendezvous
