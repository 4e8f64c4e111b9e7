// decide(): dispatches the input, then does what follows from the state alone; and the questions others ask of a state.
#include "rendezvous/membership/decide.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "rendezvous/membership/invariants.h"
#include "rendezvous/membership/turn.h"
#include "rendezvous/text/plural.h"

namespace holdfast::rendezvous {
namespace {

template <typename Enum, size_t N>
Enum from_name(const std::string& name, const std::pair<Enum, const char*> (&names)[N], const char* what) {
  for (const auto& [value, text] : names) {
    if (name == text) return value;
  }
  throw std::invalid_argument(fmt::format("\"{}\" is no {}", name, what));
}

constexpr std::pair<JobState, const char*> kJobStates[] = {{JobState::kQueued, "queued"},       {JobState::kRunning, "running"},
                                                           {JobState::kWaiting, "waiting"},     {JobState::kPaused, "paused"},
                                                           {JobState::kSucceeded, "succeeded"}, {JobState::kFailed, "failed"},
                                                           {JobState::kCancelled, "cancelled"}};
constexpr std::pair<Stage, const char*> kStages[] = {
    {Stage::kForming, "forming"}, {Stage::kRunning, "running"}, {Stage::kYielding, "yielding"}};

void on_assigned(Turn& turn, const WorkerAssigned& input) {
  Participant participant;
  participant.member = input.member;
  participant.numerics = input.numerics;
  participant.after_generation = input.after_generation;
  participant.blank_to = input.holds_nothing ? input.after_generation : 0;
  participant.heard_ms = turn.now;
  participant.seat = rank_in(turn.job.current, input.member.worker, input.member.incarnation);
  turn.job.participants[input.member.worker] = std::move(participant);
}

void on_unwanted(Turn& turn, const WorkerUnwanted& input) {
  const auto found = turn.job.participants.find(input.worker);
  if (found == turn.job.participants.end()) return;
  found->second.wanted = false;
  found->second.unwanted_reason = input.reason;
}

// A member of the generation that trains says that it does not.
void on_member_stopped(Turn& turn, const Participant& p) {
  const WorkerStatus& status = p.status;
  const std::string& worker = p.member.worker;
  const bool in_order = status.phase == Phase::kPrepared && status.reason.empty();
  // Done: rank 0 says so for all when it has saved the end, and stops after that alone. If it has stopped and this job goes on,
  // what it said went with a database that was put back from an older copy.
  if (in_order && is_done_at(turn.job, status.step) && rank_of(turn.job, p) != 0) return;
  if (in_order) return begin_yield(turn, fmt::format("{} {}", worker, status.leaving ? "leaves" : "yielded"), false);
  begin_fault(turn, stopped_in_words(worker), status.reason);
}

void on_reported(Turn& turn, const WorkerReported& input) {
  JobMembership& job = turn.job;
  const auto found = job.participants.find(input.worker);
  if (found == job.participants.end() || found->second.member.incarnation != input.status.incarnation) return;
  Participant& p = found->second;
  p.heard_ms = turn.now;
  p.asked_ms = -1;
  // A worker that the database has as a member is one, unless it says itself that it has nothing of the job.
  const bool unheard = std::exchange(p.unheard, false);
  const bool was_active = unheard || (p.status.phase == Phase::kActive && p.status.generation == job.current.number);
  const bool leaving = p.status.leaving || input.status.leaving;
  p.status = speaks_of(job, input.status) ? input.status : WorkerStatus{};
  p.status.leaving = leaving;  // a process that was told to end does not change its mind
  if (p.status.phase == Phase::kRefused) {
    const std::string reason = p.status.reason;
    const bool in_ring = is_member(job, p) && job.stage != Stage::kForming;
    if (in_ring) begin_fault(turn, fmt::format("{} cannot go on: {}", input.worker, reason));
    return refuse(turn, p, reason);
  }
  if (references_hold(job) && p.status.phase == Phase::kPrepared && !p.status.data_digest.empty()) {
    if (const std::string reason = misfit(job, p); !reason.empty()) {
      if (is_member(job, p) && job.stage != Stage::kForming) begin_fault(turn, fmt::format("{} is refused", input.worker));
      return refuse(turn, p, reason);
    }
    job.data_tokens = p.status.data_tokens;  // a database put back from an older copy may not have it
  }
  if (is_prepared(job, p)) {
    p.left_out = false;
    p.suspected_ms = -1;
    p.gone = false;
    if (p.prepared_ms < 0) p.prepared_ms = turn.now;
  } else {
    p.prepared_ms = -1;
  }
  if (!is_member(job, p) || job.stage != Stage::kRunning) return;
  const bool idle_again = was_active && (p.status.phase == Phase::kIdle || p.status.phase == Phase::kPreparing);
  if (is_prepared(job, p) || idle_again) on_member_stopped(turn, p);
}

void on_scale(Turn& turn, const ScaleAsked& input) {
  JobMembership& job = turn.job;
  if (is_ended(job.state)) return;
  const int64_t replicas = job.replicas_wanted();
  const bool same_nodes =
      std::tie(job.min_nodes, job.nodes, job.max_nodes) == std::tie(input.min_nodes, input.nodes, input.max_nodes);
  job.min_nodes = input.min_nodes;
  job.nodes = input.nodes;
  job.max_nodes = input.max_nodes;
  if (input.replicas > 0) job.replicas = input.replicas;
  const std::string of_parts =
      job.replicas_wanted() == replicas
          ? ""
          : fmt::format("wants each part of its state on {} now, not on {}", counted(job.replicas, "worker"), replicas);
  if (!of_parts.empty()) turn.note("job_scaled", of_parts);
  if (of_parts.empty() || !same_nodes)
    turn.note("job_scaled",
              fmt::format("wants {} workers now: at least {}, at most {}", job.nodes, job.min_nodes, job.max_nodes));
}

// A worker that is prepared for another division is not prepared for this one.
void on_shard_chosen(Turn& turn, const ShardChosen& input) {
  JobMembership& job = turn.job;
  if (is_ended(job.state) || job.spec.shard != "auto" || job.shard == input.shard) return;
  job.shard = input.shard;
  for (auto& [worker, p] : job.participants) {
    const bool leaving = p.status.leaving;
    p.status = {};
    p.status.leaving = leaving;
    p.prepared_ms = -1;
  }
  turn.note("shard_chosen", fmt::format("{}: {}", input.shard, input.why));
}

// A job that came after another one has formed no generation before that one ended.
void on_source_given(JobMembership& job, const StateSource& source) {
  if (is_ended(job.state) || job.current.number > 0) return;
  job.resume = {source};
  job.committed_step = source.step;
}

// Whether nothing is due after the input but what is due by time alone, which a tick sees to.
bool stands_alone(const Input& input) {
  const auto* assigned = std::get_if<WorkerAssigned>(&input);
  return (assigned != nullptr && assigned->more_follow) || std::holds_alternative<CheckpointRemoved>(input) ||
         std::holds_alternative<ShardChosen>(input) || std::holds_alternative<LateFaultReported>(input) ||
         std::holds_alternative<SourceGiven>(input);
}

void advance(Turn& turn) {
  JobMembership& job = turn.job;
  if (is_ended(job.state) || job.state == JobState::kPaused) return;
  if (job.stage != Stage::kForming && turn.judges) judge_silence(turn);
  if (job.stage == Stage::kYielding) advance_yielding(turn);
  if (job.stage == Stage::kRunning) advance_running(turn);
  if (job.stage == Stage::kForming && !is_ended(job.state)) advance_forming(turn);
}

struct Dispatch {
  Turn& turn;
  void operator()(const WorkerAssigned& input) { on_assigned(turn, input); }
  void operator()(const WorkerUnwanted& input) { on_unwanted(turn, input); }
  void operator()(const WorkerReported& input) { on_reported(turn, input); }
  void operator()(const WorkerGone& input) { on_gone(turn, input.worker, input.reason); }
  void operator()(const NewerSeen& input) { on_newer_seen(turn, input); }
  void operator()(const CheckpointsFound& input) { on_checkpoints_found(turn, input); }
  void operator()(const FaultReported& input) { on_fault_report(turn, input.report); }
  void operator()(const ProgressMade& input) { on_progress(turn, input.progress); }
  void operator()(const CheckpointTaken& input) { on_checkpoint(turn, input.record); }
  void operator()(const PauseAsked&) { on_pause(turn); }
  void operator()(const StopAsked& input) { on_stop(turn, input); }
  void operator()(const ResumeAsked&) { on_resume(turn); }
  void operator()(const PreemptAsked& input) { on_preempt(turn, input); }
  void operator()(const PreemptWithdrawn&) { on_preempt_withdrawn(turn); }
  void operator()(const FailAsked& input) {
    if (!is_ended(turn.job.state)) end_job(turn, JobState::kFailed, input.reason);
  }
  void operator()(const ScaleAsked& input) { on_scale(turn, input); }
  void operator()(const ShardChosen& input) { on_shard_chosen(turn, input); }
  void operator()(const CheckpointRemoved& input) { turn.job.checkpoints.erase(input.step); }
  void operator()(const LateFaultReported& input) { on_late_fault_report(turn, input.report); }
  void operator()(const SourceGiven& input) { on_source_given(turn.job, input.source); }
  void operator()(const Tick& input) {
    turn.judges = input.judges;
    turn.listening_since_ms = input.listening_since_ms;
  }
};

}  // namespace

const char* job_state_name(JobState state) {
  return kJobStates[static_cast<size_t>(state)].second;
}
JobState job_state_from(const std::string& name) {
  return from_name(name, kJobStates, "job state");
}
const char* stage_name(Stage stage) {
  return kStages[static_cast<size_t>(stage)].second;
}
Stage stage_from(const std::string& name) {
  return from_name(name, kStages, "stage");
}

bool is_ended(JobState state) {
  return state == JobState::kSucceeded || state == JobState::kFailed || state == JobState::kCancelled;
}

Decision decide(JobMembership state, const Input& input, Millis now, const std::function<std::string()>& new_secret) {
  const Beforehand before(state);
  Decision decision{std::move(state), {}};
  Turn turn{decision.state, now, new_secret, decision.effects};
  std::visit(Dispatch{turn}, input);
  if (!stands_alone(input)) advance(turn);
  require_sound(before, decision);
  return decision;
}

int rank_in(const Generation& generation, const std::string& worker, const std::string& incarnation) {
  for (size_t rank = 0; rank < generation.members.size(); ++rank) {
    const Member& member = generation.members[rank];
    if (member.worker == worker && member.incarnation == incarnation) return static_cast<int>(rank);
  }
  return -1;
}

int rank_of(const JobMembership& job, const Participant& p) {
  const auto& members = job.current.members;
  const bool seated = p.seat >= 0 && p.seat < static_cast<int>(members.size()) && members[p.seat].worker == p.member.worker &&
                      members[p.seat].incarnation == p.member.incarnation;
  return seated ? p.seat : rank_in(job.current, p.member.worker, p.member.incarnation);
}

bool speaks_of(const JobMembership& job, const WorkerStatus& status) {
  const bool same_birth = status.job_born == job.born || status.job_born == 0 || job.born == 0;
  return status.job == job.job && same_birth;
}

bool is_member(const JobMembership& job, const Participant& p) {
  return p.after_generation < job.current.number && rank_of(job, p) >= 0;
}

bool is_prepared(const JobMembership& job, const Participant& p) {
  if (p.status.phase != Phase::kPrepared || p.status.data_digest.empty()) return false;
  return !is_member(job, p) || p.status.generation >= job.current.number;
}

bool holds_state(const JobMembership& job, const Participant& p) {
  if (p.status.state_generation > 0 && p.status.state_generation <= p.blank_to) return false;
  if (is_outrun(job)) return p.status.step >= 0 && p.status.state_generation == newest_state_generation(job);
  const auto lineage = job.lineage_of.find(p.member.incarnation);
  const bool was_member = lineage != job.lineage_of.end() && lineage->second == job.lineage;
  // A member may have been fenced before it took the generation's state, and one that was left out may hold steps that the
  // job never heard of and has done again: what counts is where the state itself comes from.
  return p.status.step >= 0 && was_member && went_back_below(job, p.status.step, p.status.state_generation) == 0;
}

bool is_done_at(const JobMembership& job, int64_t step) {
  return job.total_steps() > 0 && step >= job.total_steps();
}

bool is_set_aside(const JobMembership& job) {
  return job.intent == Intent::kRun && (job.retry_pending || !job.preempted_by.empty());
}

std::string set_aside_in_words(const JobMembership& job) {
  if (!job.preempted_by.empty()) return preemption_in_words(job);
  return fmt::format("retry {} of {} (it failed after step {}: {})", job.retries, job.spec.retries, job.failed_step,
                     job.failure);
}

bool is_dormant(const JobMembership& job) {
  return is_ended(job.state) || job.state == JobState::kPaused || (is_set_aside(job) && job.participants.empty());
}

int64_t kept_step(const JobMembership& job) {
  const KnownCheckpoint* newest = newest_checkpoint(job);
  return std::max(newest != nullptr ? newest->step : -1, job.resume.empty() ? int64_t{0} : job.resume[0].step);
}

const KnownCheckpoint* newest_checkpoint(const JobMembership& job) {
  for (auto it = job.checkpoints.rbegin(); it != job.checkpoints.rend(); ++it) {
    if (!it->second.unreadable) return &it->second;
  }
  return nullptr;
}

std::optional<Staleness> stale(const JobMembership& job, const std::string& worker, const std::string& incarnation,
                               int64_t generation, bool rank0) {
  const Generation& current = job.current;
  if (generation > current.number) {
    return Staleness{"stale_generation",
                     fmt::format("{} speaks of generation {} of job {}, and this database knows of none after "
                                 "{}: it is older than the workers; a new generation forms",
                                 worker, generation, job.job, current.number)};
  }
  if (generation != current.number) {
    return Staleness{"stale_generation", fmt::format("{} speaks of generation {} of job {}, which is at generation {}: what it "
                                                     "says of the past changes nothing",
                                                     worker, generation, job.job, current.number)};
  }
  const int rank = rank_in(current, worker, incarnation);
  const auto p = job.participants.find(worker);
  const bool there = p != job.participants.end() && p->second.member.incarnation == incarnation;
  const bool over = is_dormant(job);  // repeating oneself is no fault
  if (rank < 0 || (!there && !over)) {
    return Staleness{"stale_incarnation", fmt::format("{} (incarnation {}) is not a member of generation {} of job {}", worker,
                                                      incarnation, generation, job.job)};
  }
  if (rank0 && rank != 0) {
    return Staleness{"not_rank_0", fmt::format("{} is rank {} of generation {} of job {}: only rank 0, {}, reports this",
                                               worker, rank, generation, job.job, current.members[0].worker)};
  }
  return std::nullopt;
}

}  // namespace holdfast::rendezvous
