// The coordinator's core: run a decision, make it durable; and jobs as their owners steer them.
#include "rendezvous/coordinator.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "rendezvous/stored_json.h"
#include "rendezvous/text_bounds.h"

namespace holdfast::rendezvous {
namespace {

constexpr size_t kEventKindsMax = 1000;  // that are counted

}  // namespace

Problem problem(int status, const std::string& code, const std::string& detail) {
  static const std::map<int, std::string> kTitles = {
      {400, "Bad request"},        {401, "No valid token"}, {403, "Not allowed"},       {404, "Not found"},
      {405, "Method not allowed"}, {409, "Conflict"},       {412, "Changed meanwhile"}, {422, "Damaged"},
      {429, "Too many"},           {500, "Internal error"}, {503, "Not available"},     {507, "No space"}};
  const auto title = kTitles.find(status);
  return {status, title == kTitles.end() ? "Error" : title->second, detail, code, {}};
}

Problem no_such_job(const std::string& id) {
  return problem(404, "not_found", fmt::format("there is no job {}; GET /v1/jobs lists them", id));
}

// Carries out one effect.
struct EffectWriter {
  Coordinator& service;
  Job& job;
  const Generation& before;  // the current generation before the decision

  void operator()(const Note& note) { service.event(job.id, note.kind, note.message, note.worker, note.generation); }
  void operator()(const Formed& formed) {
    if (job.started_ms == 0) job.started_ms = service.wall_ms();
    job.runtime.away_ms = 0;  // nobody trained then
    service.forget_shortage(job);
    service.write().add_generation({job.id, formed.generation, service.wall_ms()});
  }
  void operator()(const Outrun& outrun) { service.write().add_generation({job.id, outrun.generation, service.wall_ms()}); }
  void operator()(const StepsCommitted& steps) {
    const Generation& by = steps.generation == before.number ? before : job.membership.current;
    service.write().extend_ledger(job.id, by, job.membership.spec.microbatches(), steps.first, steps.last);
  }
  void operator()(const StepsVoided& steps) {
    service.write().void_steps(job.id, steps.first, steps.generation);
    if (job.state_hash_step >= steps.first) {
      job.state_hash.clear();
      job.state_hash_step = -1;
    }
  }
  void operator()(const Refused& refused) {
    const RefusalRow row{job.id, refused.worker, refused.incarnation, refused.reason};
    job.refusals[refused.worker] = row;
    service.write().save_refusal(row);
  }
  void operator()(const Freed& freed) { service.free_worker(freed.worker, job.id, freed.reason); }
  void operator()(const Outlived& silent) { service.outlive(silent, before.number); }
  void operator()(const CheckpointUnreadable& checkpoint) {
    const auto found = job.checkpoints.find(checkpoint.step);
    if (found != job.checkpoints.end()) service.write().save_checkpoint({job.id, found->second, true});
  }
  void operator()(const RetryPlanned& retry) {
    job.retry_at_ms = service.wall_ms() + retry.delay_ms;
    job.retry_delay_ms = retry.delay_ms;
  }
};

namespace {

// What the scheduler looks at and a step, a checkpoint or time may change. Who is freed is touched.
struct Planned {
  JobState state;
  Intent intent;
  Stage stage;
  int64_t generation;
  Millis preemptible_ms;
  size_t rifts, barred;
  bool operator==(const Planned&) const = default;
};

Planned planned_of(const JobMembership& m) {
  return {m.state, m.intent, m.stage, m.current.number, m.preemptible_ms, m.rifts.size(), m.barred.size()};
}

}  // namespace

void Coordinator::apply(Job& job, const Input& input) {
  ++work_.decisions;
  const Generation before = job.membership.current;
  const JobState state = job.membership.state;
  const Planned planned = planned_of(job.membership);
  Decision decision = decide(std::move(job.membership), input, now(), new_secret_);
  job.membership = std::move(decision.state);
  if (is_ended(job.membership.state) && job.finished_ms == 0) job.finished_ms = wall_ms();
  if (state != job.membership.state)
    state_changes_.push_back({job.id, state, job.membership.state, job.membership.reason, wall_ms()});
  EffectWriter writer{*this, job, before};
  for (const Effect& effect : decision.effects) std::visit(writer, effect);
  if (job.membership.preemptible_ms != planned.preemptible_ms)
    job.preemptible_at_ms = wall_ms() + job.membership.preemptible_ms - now();
  if (job.membership.state != state) count_runtime(job);
  save(job);
  const auto* assigned = std::get_if<WorkerAssigned>(&input);
  if (assigned != nullptr && assigned->more_follow) return;
  for (const std::string& worker : take_changed_standings(job.membership)) touch(worker);
  // A checkpoint of a job that waits frees those whose memory it lived from.
  const bool routine = std::holds_alternative<Tick>(input) || std::holds_alternative<ProgressMade>(input) ||
                       (std::holds_alternative<CheckpointTaken>(input) && state == JobState::kRunning);
  unsettled_ |= !routine || planned != planned_of(job.membership);
}

JobStore& Coordinator::write() {
  if (!in_transaction_) {
    store_.begin();
    ++writes_;
  }
  in_transaction_ = true;
  return store_;
}

void Coordinator::commit() {
  if (in_transaction_) store_.commit();
  in_transaction_ = false;
}

void Coordinator::event(const std::string& job, const std::string& kind, const std::string& message, const std::string& worker,
                        int64_t generation) {
  spdlog::info("{}{}{}: {}{}", job, job.empty() ? "" : " ", kind, message,
               actor_.empty() ? "" : " (asked for by " + actor_ + ")");
  if (event_counts_.size() < kEventKindsMax || event_counts_.contains(kind)) ++event_counts_[kind];  // workers name kinds, too
  write().add_event(
      {0, wall_ms(), job, worker, generation, shortened(kind, kWordBytesMax), shortened(message, kEventTextBytesMax), actor_});
}

const Job* Coordinator::find_job(const std::string& id) const {
  const auto found = jobs_by_id_.find(id);
  return found == jobs_by_id_.end() ? nullptr : found->second;
}

Job* Coordinator::job_of(const std::string& id) {
  const auto found = jobs_by_id_.find(id);
  return found == jobs_by_id_.end() ? nullptr : found->second;
}

Outcome<Job*> Coordinator::need_job(const std::string& id) {
  if (Job* job = job_of(id)) return job;
  return tl::unexpected(no_such_job(id));
}

Outcome<Job*> Coordinator::need_active_job(const std::string& id, const char* verb) {
  auto job = need_job(id);
  if (job && is_ended((*job)->membership.state)) {
    return tl::unexpected(problem(409, "wrong_state",
                                  fmt::format("job {} is {}: only one that has not ended can be {}", id,
                                              job_state_name((*job)->membership.state), verb)));
  }
  return job;
}

// --- jobs

std::string Coordinator::next_job_id() const {
  return fmt::format("j{}", next_job_number());
}

Job& Coordinator::submit(const JobSpec& spec, const std::vector<StateSource>& resume, const std::string& resume_note,
                         const std::string& after) {
  auto job = std::make_unique<Job>();
  job->number = next_job_number();
  job->id = next_job_id();
  job->submitted_ms = wall_ms();
  job->after = after;
  JobMembership& m = job->membership;
  m.job = job->id;
  m.born = job->submitted_ms;
  m.spec = spec;
  m.min_nodes = spec.min_nodes;
  m.nodes = spec.nodes;
  m.max_nodes = spec.max_nodes;
  m.reason = "waiting for workers";
  m.resume = resume;
  m.forming_since_ms = now();
  if (!resume.empty()) m.committed_step = resume.front().step;
  Job& stored = *job;
  jobs_by_id_[job->id] = job.get();
  live_[job->number] = job.get();
  jobs_[job->number] = std::move(job);
  save(stored);
  event(stored.id, "job_submitted",
        fmt::format("{} steps of {} microbatches, {} to {} workers (nominally {}){}{}{}{}", spec.total_steps,
                    spec.microbatches(), m.min_nodes, m.max_nodes, m.nodes, resume_note.empty() ? "" : "; ", resume_note,
                    after.empty() ? "" : "; after ", after));
  unsettled_ = true;
  return stored;
}

Outcome<void> Coordinator::stop(const std::string& id) {
  auto job = need_active_job(id, "stopped");
  if (!job) return tl::unexpected(job.error());
  apply(**job, StopAsked{});
  return {};
}

Outcome<void> Coordinator::pause(const std::string& id) {
  auto job = need_active_job(id, "paused");
  if (!job) return tl::unexpected(job.error());
  const JobMembership& m = (*job)->membership;
  if (m.state == JobState::kPaused || m.intent == Intent::kStop) {
    return tl::unexpected(problem(
        409, "wrong_state",
        fmt::format("job {} is {}: it cannot be paused", id, m.intent == Intent::kStop ? "being stopped" : "paused already")));
  }
  apply(**job, PauseAsked{});
  return {};
}

Outcome<void> Coordinator::resume(const std::string& id) {
  auto job = need_active_job(id, "resumed");
  if (!job) return tl::unexpected(job.error());
  const JobMembership& m = (*job)->membership;
  if (m.intent != Intent::kPause) {
    return tl::unexpected(problem(409, "wrong_state",
                                  fmt::format("job {} is {}: only a paused one can be resumed", id, job_state_name(m.state))));
  }
  apply(**job, ResumeAsked{});
  return {};
}

Outcome<void> Coordinator::scale(const std::string& id, const Scale& wanted) {
  auto job = need_active_job(id, "scaled");
  if (!job) return tl::unexpected(job.error());
  JobMembership& m = (*job)->membership;
  m.min_nodes = wanted.min_nodes;
  m.nodes = wanted.nodes;
  m.max_nodes = wanted.max_nodes;
  unsettled_ = true;
  event(id, "job_scaled", fmt::format("wants {} workers now: at least {}, at most {}", m.nodes, m.min_nodes, m.max_nodes), "",
        m.current.number);
  apply(**job, Tick{.judges = false});
  return {};
}

// --- what members report

Outcome<Job*> Coordinator::need_present(const std::string& id, const std::string& worker, const std::string& incarnation,
                                        int64_t generation, bool rank0) {
  auto job = need_job(id);
  if (!job) return job;
  if (auto found = need_worker(worker, incarnation); !found) return tl::unexpected(found.error());
  if (const auto staleness = stale((*job)->membership, worker, incarnation, generation, rank0)) {
    return tl::unexpected(problem(409, staleness->code, staleness->detail));
  }
  heard(workers_.at(worker), times_.lease_ms);
  return job;
}

void Coordinator::add_steps(Job& job, const Progress& progress) {
  const JobMembership& m = job.membership;
  // A state in memory may be a step ahead of what the rank 0 of its generation lived to report: it is of the last generation
  // that began below it.
  const auto applied_in = [&m](int64_t step) {
    const auto began = std::find_if(m.began_at.rbegin(), m.began_at.rend(), [&](const auto& e) { return e.second < step; });
    return began == m.began_at.rend() ? m.current.number
                                      : std::max(began->first, step <= m.current.source.step ? m.outrun_to : 0);
  };
  std::vector<StepRow> rows;
  for (const StepPoint& point : progress.points) {
    const int64_t by = applied_in(point.step);
    const auto world_size = static_cast<int64_t>(by == m.current.number ? m.current.members.size() : 0);
    rows.push_back({0, wall_ms(), job.id, by, world_size, point});
    if (point.validation_loss) job.validation_loss = point.validation_loss;
    if (point.refused && point.step > job.membership.committed_step) ++job.refused_steps;
    if (point.step_s > 0) {
      const bool first = job.step_s == 0;
      job.step_s = first ? point.step_s : 0.8 * job.step_s + 0.2 * point.step_s;
      job.communication_s = first ? point.communication_s : 0.8 * job.communication_s + 0.2 * point.communication_s;
    }
  }
  if (!rows.empty()) write().add_steps(job.id, rows);
  if (!progress.points.empty()) job.loss = progress.points.back().loss;
  if (!progress.state_hash.empty() && progress.state_hash_step >= job.state_hash_step) {
    job.state_hash = progress.state_hash;
    job.state_hash_step = progress.state_hash_step;
  }
}

Outcome<void> Coordinator::progress(const std::string& id, const Progress& progress) {
  auto job = need_present(id, progress.worker, progress.incarnation, progress.generation, true);
  if (!job) return tl::unexpected(job.error());
  const JobMembership& m = (*job)->membership;
  if (is_dormant(m)) {
    // What is committed may be told late. Steps of one who was not there when all were freed, and went on, do not count.
    if (progress.step > m.committed_step) {
      return tl::unexpected(problem(409, "wrong_state",
                                    fmt::format("job {} is {} at step {}: what {} computed after that does not count", id,
                                                job_state_name(m.state), m.committed_step, progress.worker)));
    }
  }
  count_time_away(**job, progress);
  add_steps(**job, progress);
  apply(**job, ProgressMade{progress});
  for (const StepPoint& point : progress.points) {
    if (!point.shares.empty() && point.step <= m.committed_step) write().deal_anew(id, point.step, point.shares);
  }
  return {};
}

// The next generation can have formed from the members' statuses before all reports were in: what they saw is told still, and
// changes nothing.
void Coordinator::note_late_fault(const std::string& id, const FaultReport& report) {
  Job* job = job_of(id);
  if (job == nullptr || is_ended(job->membership.state) || report.kind == "silent") return;
  if (report.generation != job->membership.current.number - 1 || !need_worker(report.worker, report.incarnation)) return;
  event(id, "fault_reported",
        fmt::format("more on the end of generation {}: {} says: {}", report.generation, report.worker, report.detail),
        report.worker, report.generation);
  if (report.kind == "handshake_failed") on_unreached(job->membership, job->membership.last_members, report);
}

Outcome<void> Coordinator::fault(const std::string& id, const FaultReport& report) {
  note_late_fault(id, report);
  auto job = need_present(id, report.worker, report.incarnation, report.generation, false);
  if (!job) return tl::unexpected(job.error());
  apply(**job, FaultReported{report});
  return {};
}

Outcome<void> Coordinator::checkpoint(const std::string& id, const CheckpointRecord& record) {
  auto job = need_present(id, record.worker, record.incarnation, record.generation, false);
  if (!job) return tl::unexpected(job.error());
  if (const auto staleness = stale_state((*job)->membership, record)) {
    return tl::unexpected(problem(409, staleness->code, staleness->detail));
  }
  for (const int64_t step : record.removed_steps) checkpoint_removed(id, step);
  (*job)->checkpoints[record.step] = record;
  write().save_checkpoint({id, record, false});
  if (!record.state_hash.empty() && record.step >= (*job)->state_hash_step) {
    (*job)->state_hash = record.state_hash;
    (*job)->state_hash_step = record.step;
  }
  apply(**job, CheckpointTaken{record});
  return {};
}

void Coordinator::checkpoint_removed(const std::string& id, int64_t step) {
  Job* job = job_of(id);
  if (job == nullptr || job->checkpoints.erase(step) == 0) return;
  job->membership.checkpoints.erase(step);
  write().remove_checkpoint(id, step);
}

Outcome<void> Coordinator::worker_event(const std::string& id, const WorkerEvent& message) {
  auto job = need_job(id);
  if (!job) return tl::unexpected(job.error());
  if (auto worker = need_worker(message.worker, message.incarnation); !worker) return tl::unexpected(worker.error());
  event(id, message.kind, message.message, message.worker, (*job)->membership.current.number);
  return {};
}

}  // namespace holdfast::rendezvous
