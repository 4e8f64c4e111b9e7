#include "tests/scenarios/stage.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <stdexcept>

#include "rendezvous/store/sqlite/store.h"

namespace holdfast::scenarios {

using namespace rendezvous;  // NOLINT(google-build-using-namespace): everything here is about it

namespace {

constexpr int64_t kTickMs = 100, kStepMs = 100, kPrepareMs = 500;

std::string source_in_words(const StateSource& source) {
  if (source.kind == StateSource::Kind::kInitial) return "from the beginning";
  if (source.kind == StateSource::Kind::kMemory) return fmt::format("from memory at step {}", source.step);
  return fmt::format("from the checkpoint of step {}", source.step);
}

std::string in_words(const Directive& directive) {
  const std::string what = fmt::format("{} generation {}", directive_name(directive.kind), directive.generation);
  switch (directive.kind) {
    case DirectiveKind::kJoin:
      return fmt::format("{} as rank {} of {}, {}", what, directive.rank, directive.members.size(),
                         source_in_words(directive.source));
    case DirectiveKind::kYield:
      return fmt::format("{}{} ({})", what, directive.checkpoint ? " with a checkpoint" : "", directive.reason);
    case DirectiveKind::kFence:
      return fmt::format("{} ({})", what, directive.reason);
    case DirectiveKind::kPrepare:
      return fmt::format("prepare {}", directive.job);
    case DirectiveKind::kIdle:
    case DirectiveKind::kExit:
      break;
  }
  return directive_name(directive.kind);
}

}  // namespace

Stage::Stage(std::string folder) : folder_(std::move(folder)) {
  std::filesystem::remove_all(folder_);
  std::filesystem::create_directories(folder_);
  open_service();
}

Stage::~Stage() {
  close_service();
  std::filesystem::remove_all(folder_);
}

void Stage::open_service() {
  store_ = open_sqlite_store(folder_ + "/holdfast.sqlite");
  coordinator_ = std::make_unique<Coordinator>(
      *store_, clock_, [this] { return fmt::format("secret-{}", ++secrets_); }, LeaseTimes{});
  for (auto& [name, actor] : actors_) actor.news = true;
}

void Stage::close_service() {
  coordinator_.reset();
  store_.reset();
}

void Stage::say(const std::string& text) {
  lines_.push_back(fmt::format("{:6.1f}  {}", static_cast<double>(clock_.ms) / 1000, text));
}

void Stage::say_refusal(const std::string& who, const Refusal& refusal) {
  say(fmt::format("{} is refused: {}: {}", who, refusal.code, refusal.detail));
}

void Stage::write_events() {
  for (const EventRow& event : store_->records().events("", last_event_, 1000)) {
    last_event_ = event.id;
    say(fmt::format("{}: {}", event.kind, event.message));
  }
}

// --- time

void Stage::advance(int64_t ms) {
  for (const int64_t end = clock_.ms + ms; clock_.ms < end;) {
    clock_.ms += std::min(kTickMs, end - clock_.ms);
    if (clock_.ms >= next_heartbeat_ms_) {
      next_heartbeat_ms_ = clock_.ms + 1000;
      for (auto& [name, actor] : actors_) actor.news = true;
    }
    if (coordinator_) coordinator_->tick();
    settle();
  }
}

void Stage::train_to(Run& run, int64_t step) {
  while (Actor* first = leader(run)) {
    const int64_t next = first->status.step + 1;
    for (const Member& member : run.ring) actors_.at(member.worker).status.step = next;
    advance(kStepMs);
    if (next >= step) return;
  }
  say("nobody trains: the ring is not whole");
}

// --- consequences of a command

void Stage::settle() {
  for (int round = 0; round < 100; ++round) {
    bool busy = false;
    if (coordinator_) deliver_letters();
    for (auto& [name, actor] : actors_) busy |= finish_preparing(actor);
    for (auto& [name, actor] : actors_) busy |= speak(actor);
    if (!coordinator_) return;
    for (auto& [job, run] : runs_) tell_progress(run);
    coordinator_->replan();
    coordinator_->commit();
    write_events();
    for (auto& [name, actor] : actors_) busy |= listen(actor);
    if (!busy) return;
  }
  say("this does not come to rest");
}

void Stage::deliver_letters() {
  for (const Fault& fault : std::exchange(faults_, {})) {
    if (const auto taken = coordinator_->report_fault(fault.job, fault.report); !taken)
      say_refusal(fault.report.worker + "'s report", taken.error());
    coordinator_->replan();
  }
  for (const WorkerLost& lost : std::exchange(losses_, {})) (void)coordinator_->report_lost(lost);
}

void Stage::enroll(Actor& actor) {
  RegisterRequest request;
  request.name = actor.name;
  request.incarnation = actor.incarnation();
  request.node = actor.node;
  request.address = actor.name + ":1";
  request.device_model = "cpu";
  request.numerics = "avx512";
  request.threads = 1;
  if (const auto taken = coordinator_->register_worker(request, "service"); !taken) say_refusal(actor.name, taken.error());
  actor.was_told = false;
}

bool Stage::finish_preparing(Actor& actor) {
  if (actor.life != Actor::Life::kWell || actor.status.phase != Phase::kPreparing || clock_.ms < actor.ready_ms) return false;
  actor.status.phase = Phase::kPrepared;
  actor.status.data_digest = "digest";
  actor.news = true;
  if (actor.told.kind != DirectiveKind::kPrepare) obey(actor, actor.told);
  return true;
}

bool Stage::speak(Actor& actor) {
  if (!coordinator_ || actor.life != Actor::Life::kWell || !std::exchange(actor.news, false)) return false;
  auto taken = coordinator_->report_status(actor.name, actor.status);
  if (!taken && taken.error().kind == Refusal::Kind::kNotKnown) {
    enroll(actor);
    taken = coordinator_->report_status(actor.name, actor.status);
  }
  if (taken) return true;
  say_refusal(actor.incarnation(), taken.error());
  say(fmt::format("{} ends, its supervisor starts another", actor.incarnation()));
  begin_life(actor);
  return true;
}

bool Stage::listen(Actor& actor) {
  if (actor.life != Actor::Life::kWell) return false;
  const auto directive = coordinator_->news_for(actor.name, actor.was_told ? actor.told.tag() : "");
  if (!directive) return false;
  const bool first = !actor.was_told && directive->kind == DirectiveKind::kIdle && actor.status.job.empty();
  actor.was_told = true;
  actor.told = *directive;
  if (!first) say(fmt::format("{} <- {}", actor.name, in_words(*directive)));
  obey(actor, *directive);
  return true;
}

void Stage::obey(Actor& actor, const Directive& directive) {
  WorkerStatus& status = actor.status;
  actor.news = true;
  switch (directive.kind) {
    case DirectiveKind::kExit:
      actor.life = Actor::Life::kDead;
      [[fallthrough]];
    case DirectiveKind::kIdle: {
      const bool leaving = status.leaving;
      status = WorkerStatus{};
      status.incarnation = actor.incarnation();
      status.leaving = leaving;
      return;
    }
    case DirectiveKind::kPrepare:
      if (status.phase == Phase::kActive) return stop_at(actor, directive);
      if (status.job == directive.job) return;
      status.phase = Phase::kPreparing;
      status.job = directive.job;
      actor.ready_ms = clock_.ms + kPrepareMs;
      return;
    case DirectiveKind::kJoin:
      return join(actor, directive);
    case DirectiveKind::kYield:
      if (const Run& run = run_of(directive.job); directive.checkpoint && run.has(actor) && leader(run) == &actor)
        register_checkpoint(run);
      return stop_at(actor, directive);
    case DirectiveKind::kFence:
      return stop_at(actor, directive);
  }
}

void Stage::stop_at(Actor& actor, const Directive& directive) {
  const bool past = actor.status.job != directive.job || actor.status.generation > directive.generation;
  if (past || actor.status.phase == Phase::kPreparing) return;
  if (actor.status.phase == Phase::kActive) actor.status.phase = Phase::kPrepared;
  actor.status.generation = directive.generation;
}

void Stage::join(Actor& actor, const Directive& directive) {
  WorkerStatus& status = actor.status;
  if (directive.generation <= status.generation || status.phase != Phase::kPrepared) return;
  if (directive.source.kind == StateSource::Kind::kCheckpoint && corrupt_.contains(directive.source.step)) {
    if (directive.rank != 0) return;  // this rank waits for rank 0 until it is fenced
    const std::string detail =
        fmt::format("shard 0 of step {} does not have the checksum that its manifest names", directive.source.step);
    faults_.push_back(
        {directive.job,
         {actor.name, actor.incarnation(), directive.generation, -1, "checkpoint_unreadable", detail, directive.source.step}});
    status.generation = directive.generation;
    status.step = -1;
    return;
  }
  status.phase = Phase::kActive;
  status.generation = status.state_generation = directive.generation;
  status.step = directive.source.step;
  status.reason.clear();
  Run& run = run_of(directive.job);
  run.generation = directive.generation;
  run.ring = directive.members;
  run.reported = std::min(run.reported, directive.source.step);
}

// --- actions of rank 0

Run& Stage::run_of(const std::string& job) {
  const auto found = runs_.find(job);
  if (found == runs_.end()) throw std::invalid_argument("there is no job " + job + " in this story yet");
  return found->second;
}

Actor* Stage::leader(const Run& run) {
  for (const Member& member : run.ring) {
    const auto found = actors_.find(member.worker);
    if (found == actors_.end() || found->second.incarnation() != member.incarnation) return nullptr;
    if (!run.has(found->second)) return nullptr;
  }
  return run.ring.empty() ? nullptr : &actors_.at(run.ring[0].worker);
}

void Stage::tell_progress(Run& run) {
  const Actor* first = leader(run);
  if (first == nullptr || first->status.step <= run.reported) return;
  Progress progress;
  progress.worker = first->name;
  progress.incarnation = first->incarnation();
  progress.generation = run.generation;
  progress.step = first->status.step;
  for (int64_t step = run.reported + 1; step <= progress.step; ++step) {
    StepPoint& point = progress.points.emplace_back();
    point.step = step;
    point.step_s = 0.1;
  }
  if (!coordinator_->record_progress(run.job, progress)) return;  // refused: reported again later
  run.reported = progress.step;
  if (progress.step < run.total_steps) return;
  register_checkpoint(run);
  progress.points.clear();
  progress.finished = true;
  (void)coordinator_->record_progress(run.job, progress);
}

void Stage::fail(Run& run) {
  const Actor* first = leader(run);
  if (first == nullptr) return say("nobody trains: nothing can fail");
  Progress progress;
  progress.worker = first->name;
  progress.incarnation = first->incarnation();
  progress.generation = run.generation;
  progress.step = first->status.step;
  progress.failure = "the loss of 10 steps in a row was not finite";
  (void)coordinator_->record_progress(run.job, progress);
}

void Stage::register_checkpoint(const Run& run) {
  const Actor* first = leader(run);
  if (first == nullptr) return say("nobody trains: there is nothing to write down");
  CheckpointRecord record;
  record.worker = first->name;
  record.incarnation = first->incarnation();
  record.generation = record.state_generation = run.generation;
  record.step = first->status.step;
  record.state_hash = fmt::format("hash-{}", record.step);
  record.stored_bytes = 18'500'000;
  record.shards = 1;
  record.write_s = 0.4;
  record.stall_s = 0.013;
  if (const auto taken = coordinator_->register_checkpoint(run.job, record); !taken)
    say_refusal("the checkpoint", taken.error());
}

}  // namespace holdfast::scenarios
