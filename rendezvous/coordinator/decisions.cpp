#include "rendezvous/coordinator/decisions.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "rendezvous/plan/fit.h"
#include "rendezvous/text/natural_order.h"

namespace holdfast::rendezvous {

// Carries out one effect.
struct EffectWriter {
  Decisions& decisions;
  Job& job;
  const Generation& before;  // the current generation before the decision

  JobStore& write() const { return decisions.journal_.write(); }
  int64_t wall_ms() const { return decisions.registry_.wall_ms(); }

  void operator()(const Note& note) const {
    decisions.journal_.record({note.kind, note.message, job.id, note.worker, note.generation});
  }
  void operator()(const Formed& formed) const {
    if (job.started_ms == 0) job.started_ms = wall_ms();
    job.runtime.away_ms = 0;  // nobody trained while the service was away
    for (const Member& member : formed.generation.members) job.refusals.erase(member.worker);  // it fits now
    job.forget_shortage();
    write().add_generation({job.id, formed.generation, wall_ms()});
  }
  void operator()(const Outrun& outrun) const { write().add_generation({job.id, outrun.generation, wall_ms()}); }
  void operator()(const StepsCommitted& steps) const {
    const Generation& by = steps.generation == before.number ? before : job.membership->current;
    write().extend_ledger(job.id, by, job.membership->spec.microbatches(), steps.first, steps.last);
  }
  void operator()(const StepsVoided& steps) const {
    write().void_steps(job.id, steps.first, steps.generation);
    if (job.state_hash_step >= steps.first) {
      job.state_hash.clear();
      job.state_hash_step = -1;
    }
  }
  void operator()(const Refused& refused) const {
    RefusalRow row{job.id, refused.worker, refused.incarnation, refused.reason};
    decisions.registry_.refuse(job, row, refused.for_good);
    if (!refused.for_good) row.incarnation.clear();  // for a service that is started again it is as of an earlier life
    write().save_refusal(row);
  }
  void operator()(const Freed& freed) const { decisions.free_worker(freed, job); }
  void operator()(const Outlived& silent) const { decisions.outlive(silent, before.number); }
  void operator()(const CheckpointUnreadable& checkpoint) const {
    const auto found = job.checkpoints.find(checkpoint.step);
    if (found != job.checkpoints.end()) write().save_checkpoint({job.id, found->second, true});
  }
  void operator()(const RetryPlanned& retry) const {
    job.retry_at_ms = wall_ms() + retry.delay_ms;
    job.retry_delay_ms = retry.delay_ms;
  }
};

namespace {

// The scheduler's inputs that a step, a checkpoint or time may change. While they are equal, no new plan is needed. A worker
// that is freed is touched, which asks for a plan.
struct PlannerInputs {
  JobState state;
  Intent intent;
  Stage stage;
  int64_t generation;
  Millis preemptible_ms;
  size_t rifts, barred;
  bool operator==(const PlannerInputs&) const = default;
};

WorkerMemory memory_of(const RegisterRequest& worker) {
  const bool on_host = worker.device != "hip" && worker.device != "cuda";
  return {worker.name, static_cast<double>(worker.memory_limit_bytes), on_host ? 0 : static_cast<double>(worker.memory_bytes),
          on_host};
}

// `joining`: not a participant yet; or null.
std::vector<WorkerMemory> memory_of_workers(Registry& registry, const JobMembership& m, const Worker* joining) {
  std::vector<WorkerMemory> workers;
  if (joining != nullptr) workers.push_back(memory_of(joining->registration));
  for (const auto& [id, p] : m.participants) {
    const Worker* worker = registry.find_worker(id);
    if (worker != nullptr && worker != joining) workers.push_back(memory_of(worker->registration));
  }
  std::ranges::sort(workers, natural_less, &WorkerMemory::name);
  return workers;
}

// A participant that has not spoken since the service started may hold one.
bool may_hold_a_state(const JobMembership& m, const Worker& joining) {
  const bool any = std::ranges::any_of(m.participants, [](const auto& entry) {
    return entry.second.unheard || entry.second.status.step >= 0 || entry.second.status.phase == Phase::kActive;
  });
  return any || (speaks_of(m, joining.status) && joining.status.step >= 0);
}

PlannerInputs planner_inputs(const JobMembership& m) {
  return {m.state, m.intent, m.stage, m.current.number, m.preemptible_ms, m.rifts.size(), m.barred.size()};
}

}  // namespace

void Decisions::apply(Job& job, const Input& input) {
  ++made_;
  const Generation before = job.membership->current;
  const JobState state = job.membership->state;
  const PlannerInputs planned = planner_inputs(job.membership);
  const int64_t wall_ms = registry_.wall_ms();
  const std::vector<Effect> effects = decide(job.membership, input, registry_.now(), new_secret_);
  const bool changed = job.membership->state != state;
  if (is_ended(job.membership->state) && job.finished_ms == 0) job.finished_ms = wall_ms;
  if (changed) journal_.note_state_change({job.id, state, job.membership->state, job.membership->reason, wall_ms});
  const EffectWriter writer{*this, job, before};
  for (const Effect& effect : effects) std::visit(writer, effect);
  if (job.membership->preemptible_ms != planned.preemptible_ms)
    job.preemptible_at_ms = wall_ms + job.membership->preemptible_ms - registry_.now();
  if (changed) job.runtime.count(registry_.now(), job.membership->state == JobState::kRunning);
  registry_.save(job);
  const auto* assigned = std::get_if<WorkerAssigned>(&input);
  if (assigned != nullptr && assigned->more_follow) return;
  for (const std::string& worker : workers_to_notify(job.membership)) registry_.touch(worker);
  // While a job waits, a checkpoint releases the workers that were kept only for the state in their memory.
  const bool routine = std::holds_alternative<Tick>(input) || std::holds_alternative<ProgressMade>(input) ||
                       std::holds_alternative<CheckpointRemoved>(input) || std::holds_alternative<LateFaultReported>(input) ||
                       (std::holds_alternative<CheckpointTaken>(input) && state == JobState::kRunning);
  if (!routine || planned != planner_inputs(job.membership)) registry_.ask_for_plan();
}

// The division of the state of a job that leaves it open (`shard` auto) is chosen for the memory of its workers. A choice
// stands for as long as a worker holds a state of the job, which it holds as that was divided; until then each that comes may
// change it.
void Decisions::choose_shard_with(const Worker& joining, Job& job) {
  const JobMembership& m = job.membership;
  if (m.spec.shard != "auto") return;
  if (!m.shard.empty() && (m.stage != Stage::kForming || may_hold_a_state(m, joining))) return;
  const std::vector<WorkerMemory> workers = memory_of_workers(registry_, m, &joining);
  JobSpec spec = m.spec;
  spec.replicas = m.replicas_wanted();
  const ShardChoice choice = choose_shard(spec, workers);
  if (choice.shard != m.shard) apply(job, ShardChosen{choice.shard, choice.why});
}

std::string Decisions::lack_of_memory(const Job& job, const JobSpec& spec) const {
  return misfit(spec, memory_of_workers(registry_, job.membership, nullptr));
}

void Decisions::assign(Worker& worker, Job& job, Batch batch) {
  const RegisterRequest& r = worker.registration;
  worker.job = worker.last_job = job.id;
  worker.after_generation = job.membership->current.number;
  registry_.save(worker);
  registry_.touch(r.name);
  if (batch == Batch::kLast) choose_shard_with(worker, job);
  apply(job, WorkerAssigned{{r.name, r.incarnation, r.address},
                            r.numerics,
                            worker.after_generation,
                            batch == Batch::kMoreFollow,
                            worker.has_no_job() || worker.idle_told});
}

void Decisions::free_worker(const Freed& freed, const Job& job) {
  Worker* worker = registry_.find_worker(freed.worker);
  if (worker == nullptr || worker->job != job.id) return;
  worker->job.clear();
  worker->freed_ms = registry_.now();
  registry_.save(*worker);
  registry_.touch(freed.worker);
  if (!is_ended(job.membership->state))
    journal_.record({"worker_left", fmt::format("{} left the job: {}", freed.worker, freed.reason), job.id, freed.worker});
}

void Decisions::outlive(const Outlived& silent, int64_t last_generation) {
  Worker* worker = registry_.find_worker(silent.worker);
  if (worker == nullptr || worker->registration.incarnation != silent.incarnation) return;
  lives_.write_off(*worker, Worker::Life::kLost, silent.reason + " and nothing was heard of it since", last_generation);
  lives_.forbid(silent.worker, silent.incarnation, "stale_incarnation");
}

}  // namespace holdfast::rendezvous
