#include "worker/process/lifecycle.h"

#include <algorithm>

namespace holdfast::worker {
namespace {

using rendezvous::Directive;
using rendezvous::DirectiveKind;
using rendezvous::Phase;
using Activity = Lifecycle::Activity;

std::string why(const Directive& directive) {
  std::string text = directive_name(directive.kind);
  return directive.reason.empty() ? text : text + ": " + directive.reason;
}

// Whether the wanted job is the job that is held.
bool is_mine(const Lifecycle& state) {
  return state.wanted.job == state.job && state.wanted.job_born == state.job_born;
}

// Whether the state is to be divided otherwise than this worker is prepared for: models are built for one division.
bool is_divided_otherwise(const Lifecycle& state) {
  return state.wanted.spec && state.wanted.spec->shard != state.shard;
}

// The generation up to which this worker takes no part in the job, from the last time that it held it.
int64_t take_given_up(Lifecycle& state, const std::string& job, int64_t born) {
  const auto found = std::ranges::find_if(
      state.given_up, [&](const Lifecycle::GivenUp& other) { return other.job == job && other.born == born; });
  if (found == state.given_up.end()) return 0;
  const int64_t fenced = found->fenced;
  state.given_up.erase(found);
  return fenced;
}

void forget_job(Lifecycle& state) {
  if (state.fenced > 0) state.given_up.push_back({state.job, state.job_born, state.fenced});
  if (state.given_up.size() > Lifecycle::kGivenUpMax) state.given_up.erase(state.given_up.begin());
  state.job.clear();
  state.job_born = 0;
  state.shard.clear();
  state.prepared = false;
  state.refusal.clear();
  state.fenced = 0;
  state.step = -1;
  state.state_generation = 0;
  state.data_digest.clear();
  state.data_tokens = 0;
  state.reason.clear();
}

void begin(Lifecycle& state, Activity activity) {
  state.activity = activity;
  state.interrupted = state.yield_asked = state.joined = false;
  state.asked = {};
  state.profile.reset();
}

void interrupt(Lifecycle& state, const std::string& reason, std::vector<Command>& commands) {
  if (state.interrupted) return;
  state.interrupted = true;
  commands.emplace_back(InterruptTrain{reason});
}

void leave(Lifecycle& state, const std::string& reason, std::vector<Command>& commands) {
  state.exiting = true;
  commands.emplace_back(ExitProcess{reason});
}

void ask_yield(Lifecycle& state, const AskYield& wanted, std::vector<Command>& commands) {
  const bool news = !state.yield_asked || (wanted.checkpoint && !state.asked.checkpoint) ||
                    (wanted.leaving && !state.asked.leaving) || (wanted.released && !state.asked.released);
  if (!news || state.interrupted) return;
  state.yield_asked = true;
  state.asked.checkpoint |= wanted.checkpoint;
  state.asked.leaving |= wanted.leaving;
  state.asked.released |= wanted.released;
  commands.emplace_back(state.asked);
}

void pass_profile(Lifecycle& state, std::vector<Command>& commands) {
  if (state.wanted.profile == state.profile || state.interrupted) return;
  state.profile = state.wanted.profile;
  commands.emplace_back(RecordProfile{state.profile});
}

void reconcile_running(Lifecycle& state, std::vector<Command>& commands) {
  const Directive& wanted = state.wanted;
  const bool mine = is_mine(state);
  switch (wanted.kind) {
    case DirectiveKind::kIdle:
    case DirectiveKind::kPrepare:
    case DirectiveKind::kExit:
      interrupt(state, why(wanted), commands);
      break;
    case DirectiveKind::kJoin:
      if (!mine || wanted.generation != state.running) interrupt(state, why(wanted), commands);
      pass_profile(state, commands);
      break;
    case DirectiveKind::kFence:
      if (mine && wanted.generation >= state.running) interrupt(state, why(wanted), commands);
      break;
    case DirectiveKind::kYield:
      if (mine && wanted.generation >= state.running)
        ask_yield(state, {wanted.checkpoint, state.leaving, wanted.released}, commands);
      break;
  }
  if (state.leaving) ask_yield(state, {.leaving = true}, commands);
}

void reconcile_preparing(Lifecycle& state, std::vector<Command>& commands) {
  const Directive& wanted = state.wanted;
  const bool still_wanted = is_mine(state) && !is_divided_otherwise(state) && wanted.kind != DirectiveKind::kIdle &&
                            wanted.kind != DirectiveKind::kExit;
  if (!still_wanted || state.leaving) interrupt(state, state.leaving ? "leaving" : why(wanted), commands);
}

void start_prepare(Lifecycle& state, std::vector<Command>& commands) {
  if (state.leaving || !state.wanted.spec.has_value()) return;
  forget_job(state);
  state.job = state.wanted.job;
  state.job_born = state.wanted.job_born;
  state.shard = state.wanted.spec->shard;
  state.fenced = take_given_up(state, state.job, state.job_born);
  begin(state, Activity::kPreparing);
  commands.emplace_back(StartPrepare{state.job, *state.wanted.spec});
}

void start_release(Lifecycle& state, std::vector<Command>& commands) {
  if (!state.prepared) return forget_job(state);
  begin(state, Activity::kReleasing);
  commands.emplace_back(StartRelease{});
}

void reconcile_at_rest(Lifecycle& state, std::vector<Command>& commands) {
  const Directive& wanted = state.wanted;
  const bool held = !state.job.empty() && is_mine(state) && !is_divided_otherwise(state);
  switch (wanted.kind) {
    case DirectiveKind::kExit:
      leave(state, why(wanted), commands);
      break;
    case DirectiveKind::kIdle:
      if (!state.job.empty()) start_release(state, commands);
      break;
    case DirectiveKind::kPrepare:
      if (!held) start_prepare(state, commands);
      break;
    case DirectiveKind::kJoin:
      if (!held) return start_prepare(state, commands);
      if (!state.prepared || wanted.generation <= state.fenced) return;
      begin(state, Activity::kRunning);
      state.running = wanted.generation;
      commands.emplace_back(StartRun{wanted});
      break;
    case DirectiveKind::kFence:
    case DirectiveKind::kYield:
      if (held) state.fenced = std::max(state.fenced, wanted.generation);
      break;
  }
}

void reconcile(Lifecycle& state, std::vector<Command>& commands) {
  if (state.exiting) return;
  switch (state.activity) {
    case Activity::kRunning:
      return reconcile_running(state, commands);
    case Activity::kPreparing:
      return reconcile_preparing(state, commands);
    case Activity::kReleasing:
      return;
    case Activity::kNone:
      reconcile_at_rest(state, commands);
      // A run that begins while this worker wants to leave yields after its first step.
      if (state.activity == Activity::kRunning) reconcile_running(state, commands);
  }
}

struct Apply {
  Lifecycle& state;
  std::vector<Command>& commands;

  void operator()(const DirectiveReceived& input) { state.wanted = input.directive; }
  void operator()(const PrepareEnded& input) {
    state.activity = Activity::kNone;
    if (input.how == PrepareEnded::How::kInterrupted) return forget_job(state);
    state.prepared = input.how == PrepareEnded::How::kPrepared;
    state.refusal = input.reason;
    state.data_digest = input.data_digest;
    state.data_tokens = input.data_tokens;
  }
  void operator()(const Joined& input) {
    state.joined = true;
    state.step = input.step;
    state.state_generation = state.running;
    state.reason.clear();
  }
  void operator()(const StepCommitted& input) { state.step = input.step; }
  void operator()(const RunEnded& input) {
    state.activity = Activity::kNone;
    state.joined = false;
    state.fenced = std::max({state.fenced, state.running, input.superseded_by});
    // The run took over another state, and ended before all ranks had agreed on it.
    if (input.step != state.step) state.state_generation = state.running;
    state.step = input.step;
    state.reason = input.reason;
  }
  void operator()(const Released&) {
    state.activity = Activity::kNone;
    forget_job(state);
  }
  void operator()(const TerminationAsked&) { state.leaving = true; }
  void operator()(const GraceOver&) {
    if (state.activity != Activity::kNone || state.exiting) return;
    leave(state, "nobody granted the termination in time", commands);
  }
};

Phase phase_of(const Lifecycle& state) {
  if (state.job.empty()) return Phase::kIdle;
  if (state.activity == Activity::kPreparing) return Phase::kPreparing;
  if (state.joined) return Phase::kActive;
  return state.prepared ? Phase::kPrepared : Phase::kRefused;
}

}  // namespace

std::vector<Command> advance(Lifecycle& state, const Input& input) {
  std::vector<Command> commands;
  std::visit(Apply{state, commands}, input);
  reconcile(state, commands);
  return commands;
}

rendezvous::WorkerStatus status_of(const Lifecycle& state, const std::string& incarnation) {
  rendezvous::WorkerStatus status;
  status.incarnation = incarnation;
  status.leaving = state.leaving;
  // A state that is being given up cannot be built on any more, though its job may be wanted again meanwhile.
  if (state.activity == Activity::kReleasing) return status;
  status.phase = phase_of(state);
  status.job = state.job;
  status.job_born = state.job_born;
  status.generation = state.joined ? state.running : state.fenced;
  status.step = state.step;
  status.state_generation = state.step >= 0 ? state.state_generation : 0;
  status.data_digest = state.data_digest;
  status.data_tokens = state.data_tokens;
  status.reason = state.prepared ? state.reason : state.refusal;
  return status;
}

}  // namespace holdfast::worker
