#include "rendezvous/coordinator/coordinator.h"

#include <fmt/format.h>

#include <utility>

#include "rendezvous/coordinator/persistence.h"

namespace holdfast::rendezvous {
namespace {

constexpr auto kWrongState = Refusal::Kind::kWrongState;
constexpr Millis kStoodStillMs = 200;  // ticks come every 50 ms, unless a commit or the whole process hung

// "1000 steps of 8 microbatches", "5 epochs of steps of 8 microbatches", or "texts of job:j1@60".
std::string length_in_words(const JobSpec& spec) {
  if (spec.serves()) return "texts of " + spec.init_from;
  const std::string steps = spec.epochs == 0 ? fmt::format("{} steps", spec.total_steps)
                                             : fmt::format("{} epoch{} of steps", spec.epochs, spec.epochs == 1 ? "" : "s");
  return fmt::format("{} of {} microbatches", steps, spec.microbatches());
}

ProfiledJob as_profiled(const Job& job) {
  const JobMembership& m = job.membership;
  const bool running = m.state == JobState::kRunning;
  return {.id = job.id,
          .state = running ? "between two generations" : job_state_name(m.state),
          .trains = running && m.stage == Stage::kRunning,
          .generation = m.current.number,
          .members = m.current.members,
          .committed_step = m.committed_step,
          .total_steps = m.total_steps(),
          .step_s = job.step_time.step_s};
}

Refusal refusal_of_profile(const ProfileRefusal& refusal) {
  using Kind = ProfileRefusal::Kind;
  const auto kind = refusal.kind == Kind::kWrongState ? Refusal::Kind::kWrongState
                    : refusal.kind == Kind::kStale    ? Refusal::Kind::kStale
                                                      : Refusal::Kind::kInvalid;
  return {kind, refusal.code, refusal.detail};
}

}  // namespace

Coordinator::Coordinator(JobStore& store, const Clock& clock, std::function<std::string()> new_secret, LeaseTimes times,
                         bool hears_workers)
    : journal_(store, clock),
      registry_(journal_, clock),
      lives_(registry_, journal_),
      decisions_(registry_, journal_, lives_, std::move(new_secret)),
      directives_(registry_, profiles_),
      queue_(registry_, journal_, decisions_),
      planning_(registry_, decisions_, queue_),
      restored_(registry_, journal_, decisions_),
      workers_({registry_, journal_, lives_, decisions_, planning_, directives_, restored_}, times),
      reports_({registry_, journal_, lives_, decisions_, workers_}),
      times_(times),
      hears_workers_(hears_workers) {
  load(store, registry_, lives_, times.grace_ms);
}

OrRefusal<Job*> Coordinator::need_active_job(const std::string& id, const char* verb) {
  Job* job = registry_.find_job(id);
  if (job == nullptr) return tl::unexpected(no_such_job(id));
  if (is_ended(job->membership->state)) {
    return refuse(
        kWrongState, "wrong_state",
        fmt::format("job {} is {}: only one that has not ended can be {}", id, job_state_name(job->membership->state), verb));
  }
  return job;
}

Job& Coordinator::submit(const JobSpec& spec, const std::vector<StateSource>& resume, const std::string& resume_note,
                         const std::string& after) {
  auto job = std::make_unique<Job>();
  job->number = registry_.next_job_number();
  job->id = registry_.next_job_id();
  job->submitted_ms = registry_.wall_ms();
  job->after = after;
  job->membership = begin_membership({job->id, job->submitted_ms, spec, resume}, registry_.now());
  Job& stored = registry_.add(std::move(job));
  registry_.save(stored);
  journal_.record(
      {"job_submitted",
       fmt::format("{}, {} to {} workers (nominally {}){}{}{}{}", length_in_words(spec), spec.min_nodes, spec.max_nodes,
                   spec.nodes, resume_note.empty() ? "" : "; ", resume_note, after.empty() ? "" : "; after ", after),
       stored.id});
  registry_.ask_for_plan();
  return stored;
}

OrRefusal<void> Coordinator::stop(const std::string& id, bool checkpoint) {
  auto job = need_active_job(id, "stopped");
  if (!job) return tl::unexpected(job.error());
  decisions_.apply(**job, StopAsked{.checkpoint = checkpoint});
  return {};
}

OrRefusal<void> Coordinator::pause(const std::string& id) {
  auto job = need_active_job(id, "paused");
  if (!job) return tl::unexpected(job.error());
  const JobMembership& m = (*job)->membership;
  if (m.state == JobState::kPaused || m.intent == Intent::kStop) {
    return refuse(
        kWrongState, "wrong_state",
        fmt::format("job {} is {}: it cannot be paused", id, m.intent == Intent::kStop ? "being stopped" : "paused already"));
  }
  decisions_.apply(**job, PauseAsked{});
  return {};
}

OrRefusal<void> Coordinator::resume(const std::string& id) {
  auto job = need_active_job(id, "resumed");
  if (!job) return tl::unexpected(job.error());
  const JobMembership& m = (*job)->membership;
  if (m.intent != Intent::kPause) {
    return refuse(kWrongState, "wrong_state",
                  fmt::format("job {} is {}: only a paused one can be resumed", id, job_state_name(m.state)));
  }
  decisions_.apply(**job, ResumeAsked{});
  return {};
}

OrRefusal<void> Coordinator::scale(const std::string& id, const Scale& wanted) {
  auto job = need_active_job(id, "scaled");
  if (!job) return tl::unexpected(job.error());
  const JobMembership& m = (*job)->membership;
  if (wanted.replicas > 0 && wanted.replicas != m.replicas_wanted()) {
    if (m.shard_now() == "none") {
      return refuse(
          kWrongState, "wrong_state",
          fmt::format("replicas {}: the state of job {} is not divided among its workers (shard {}), so each has all of "
                      "it: only a job with shard optimizer, gradients or parameters has replicas",
                      wanted.replicas, id, m.spec.shard));
    }
    JobSpec spec = m.spec;
    spec.shard = m.shard_now();
    spec.replicas = wanted.replicas;
    const std::string lack =
        spec.shard.empty() || wanted.replicas < m.replicas_wanted() ? "" : decisions_.lack_of_memory(**job, spec);
    if (!lack.empty())
      return refuse(kWrongState, "wrong_state", fmt::format("replicas {}: {}: choose fewer", wanted.replicas, lack));
    (*job)->copies_told = -1;
  }
  decisions_.apply(**job, ScaleAsked{wanted.min_nodes, wanted.nodes, wanted.max_nodes, wanted.replicas});
  return {};
}

// --- profiles

OrRefusal<const Profile*> Coordinator::begin_profile(const std::string& id, int64_t steps) {
  const Job* job = find_job(id);
  if (job == nullptr) return tl::unexpected(no_such_job(id));
  const auto profile = profiles_.begin(as_profiled(*job), steps, registry_.wall_ms());
  if (!profile) return tl::unexpected(refusal_of_profile(profile.error()));
  for (const Profile::Rank& rank : (*profile)->ranks) registry_.touch(rank.member.worker);
  return *profile;
}

OrRefusal<void> Coordinator::take_profile_part(const std::string& id, ProfilePart part) {
  const Job* job = find_job(id);
  if (job == nullptr) return tl::unexpected(no_such_job(id));
  if (auto worker = lives_.need(part.worker, part.incarnation); !worker) return tl::unexpected(worker.error());
  const auto taken = profiles_.take_part(id, std::move(part));
  if (!taken) return tl::unexpected(refusal_of_profile(taken.error()));
  look_at_profile(*job);
  return {};
}

void Coordinator::look_at_profile(const Job& job) {
  const auto lives = [this](const Member& member) {
    const Worker* worker = registry_.find_worker(member.worker);
    return worker != nullptr && worker->life == Worker::Life::kAlive && worker->registration.incarnation == member.incarnation;
  };
  if (!profiles_.look(as_profiled(job), registry_.now(), lives)) return;
  for (const Profile::Rank& rank : profiles_.find(job.id)->ranks) registry_.touch(rank.member.worker);
}

// --- time

// Removes old records, a few at a time, so that no turn takes long.
void Coordinator::forget_old_records() {
  constexpr int64_t kEveryMs = 60 * 1000;
  if (!old_records_left_ && registry_.now() < forgot_records_ms_ + kEveryMs) return;
  forgot_records_ms_ = registry_.now();
  old_records_left_ = journal_.write().forget_old(registry_.wall_ms());
}

void Coordinator::tick(bool hears) {
  const Millis now = registry_.now();
  // A service that was itself stopped for a while could not hear anybody: that time counts against no worker.
  if (!hears || (last_tick_ms_ >= 0 && now - last_tick_ms_ > times_.lease_ms / 2)) workers_.renew_all_leases();
  if (!hears || last_tick_ms_ < 0 || now - last_tick_ms_ > kStoodStillMs) listening_since_ms_ = now;
  last_tick_ms_ = now;
  planning_.ask_if_due();
  workers_.expire_leases();
  workers_.release_from_ended_jobs();
  workers_.forget_long_gone();
  forget_old_records();
  registry_.drop_ended_jobs();
  for (const std::string& job : profiles_.recording()) look_at_profile(*registry_.find_job(job));
  for (const auto& [number, job] : registry_.live_jobs()) {
    const JobMembership& m = job->membership;
    if (is_ended(m.state)) continue;
    if (m.state == JobState::kRunning) queue_.end_overlong(*job);
    const bool dormant =
        is_ended(m.state) || m.state == JobState::kPaused || (m.participants.empty() && m.state != JobState::kRunning);
    if (!dormant) decisions_.apply(*job, Tick{.judges = true, .listening_since_ms = listening_since_ms_});
  }
}

}  // namespace holdfast::rendezvous
