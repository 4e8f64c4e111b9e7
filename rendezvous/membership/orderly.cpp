// Orderly changes: joins, leaves, pause, stop. The members agree to stop after the same step, so nothing is recomputed.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "rendezvous/membership/seating.h"
#include "rendezvous/membership/turn.h"
#include "rendezvous/text/list_in_words.h"
#include "rendezvous/text/natural_order.h"
#include "rendezvous/text/plural.h"

namespace holdfast::rendezvous {
namespace {

constexpr Millis kYieldMs = 30000;  // for a yield, or five steps when that is more
// More when a checkpoint is to be written in it: three times what the last one took, but at least this; or, of a first one,
// that.
constexpr Millis kCheckpointMs = 120000, kFirstCheckpointMs = 600000;
constexpr Millis kGatherMs = 2000;   // joiners wait so long for others that are still preparing
constexpr Millis kSettleMs = 10000;  // a stop does not wait longer for a generation to begin

std::vector<std::string> leavers(const JobMembership& job) {
  std::vector<std::string> names;
  for (const Member& member : job.current.members) {
    const auto found = job.participants.find(member.worker);
    if (found != job.participants.end() && is_leaving(found->second) && is_member(job, found->second))
      names.push_back(member.worker);
  }
  return names;
}

// Whether a generation of the members and this worker would leave one of them out.
bool would_wait(const JobMembership& job, const std::string& worker, Millis now) {
  std::vector<std::string> names;
  for (const Member& member : job.current.members) {
    const auto found = job.participants.find(member.worker);
    if (found != job.participants.end() && is_member(job, found->second)) names.push_back(member.worker);
  }
  names.push_back(worker);
  return !seat_ring(job, names, now).waiting.empty();
}

// Prepared workers that the running generation has room for; none while others are about to be ready.
std::vector<std::string> joiners(const JobMembership& job, Millis now, int64_t room) {
  std::vector<std::string> names;
  Millis first_ms = now;
  bool others_preparing = false;
  for (const auto& [worker, p] : job.participants) {
    if (is_leaving(p) || is_member(job, p) || is_spared_reading(job, worker)) continue;
    if (p.status.phase == Phase::kPreparing) others_preparing = true;
    if (!is_prepared(job, p)) continue;
    names.push_back(worker);
    first_ms = std::min(first_ms, p.prepared_ms);
  }
  if (others_preparing && now < first_ms + kGatherMs) return {};
  std::ranges::sort(names, natural_less);
  names.resize(std::min<size_t>(names.size(), std::max<int64_t>(0, room)));
  if (!job.rifts.empty() || !job.barred.empty())
    std::erase_if(names, [&](const std::string& name) { return would_wait(job, name, now); });
  return names;
}

std::string leaver_reason(const JobMembership& job, const std::vector<std::string>& names) {
  const Participant& first = job.participants.at(names[0]);
  const std::string& why = first.status.leaving && first.unwanted_reason.empty() ? "told to end" : first.unwanted_reason;
  return fmt::format("{} {} ({})", in_words(names), names.size() == 1 ? "leaves" : "leave", why);
}

bool all_active(const JobMembership& job) {
  return std::ranges::all_of(job.current.members, [&](const Member& member) {
    const auto found = job.participants.find(member.worker);
    return found != job.participants.end() && found->second.status.phase == Phase::kActive &&
           found->second.status.generation == job.current.number;
  });
}

// A pause whose checkpoint could not be written would lose steps: it is called off. So is a preemption. Leavers are not held
// back for it.
void check_handover(Turn& turn) {
  JobMembership& job = turn.job;
  const KnownCheckpoint* newest = newest_checkpoint(job);
  const int64_t memory = best_memory(job, true);
  job.handover_failed = memory > (newest != nullptr ? newest->step : 0);
  if (!job.handover_failed) return;
  if (job.intent == Intent::kPreempt)
    return call_off_preemption(turn, fmt::format("the checkpoint of step {} could not be written", memory));
  if (job.intent != Intent::kPause) return;
  job.intent = Intent::kRun;
  turn.note("pause_failed",
            fmt::format("the checkpoint of step {} could not be written, so the job goes on; pause it again when the "
                        "checkpoint store is well",
                        memory));
}

Millis checkpoint_patience(const JobMembership& job) {
  if (job.checkpoint_s > 0)
    return std::max(kCheckpointMs, static_cast<Millis>(std::llround(std::min(3 * job.checkpoint_s, 3600.0) * 1000)));
  return job.intent == Intent::kPreempt ? kCheckpointMs : kFirstCheckpointMs;  // a preemption that fails costs nothing
}

// A wish of another job is no fault of this one: it goes on from memory, and is not asked again at once.
void give_up_yield(Turn& turn, const std::string& late) {
  const std::string text = fmt::format("{} did not stop in time ({})", late, turn.job.yield_reason);
  if (turn.job.intent != Intent::kPreempt) return begin_fault(turn, text);
  call_off_preemption(turn, fmt::format("{} did not stop and write a checkpoint in time", late));
  begin_anew(turn, text);
}

}  // namespace

bool is_whole(const JobMembership& job) {
  return job.stage == Stage::kRunning && all_active(job);
}

bool is_leaving(const Participant& p) {
  return !p.wanted || p.status.leaving;
}

void begin_yield(Turn& turn, const std::string& reason, bool checkpoint) {
  JobMembership& job = turn.job;
  checkpoint = checkpoint && !job.spec.serves();  // replicas have no state of the job's
  job.stage = Stage::kYielding;
  job.yield_reason = reason;
  job.yield_checkpoint = checkpoint;
  const Millis steps_ms = std::llround(std::min(5 * job.step_s, 3600.0) * 1000);
  job.yield_deadline_ms = turn.now + std::max(kYieldMs, steps_ms) + (checkpoint ? checkpoint_patience(job) : 0);
  turn.note("generation_yields",
            fmt::format("generation {} stops{}{}: {}", job.current.number, job.spec.serves() ? "" : " after the step under way",
                        checkpoint ? " and writes a checkpoint" : "", reason));
}

void advance_running(Turn& turn) {
  JobMembership& job = turn.job;
  free_leavers(turn);  // that had not joined yet
  free_stuck(turn);
  bound_preemption(turn);
  if (!all_active(job)) {
    if (job.intent == Intent::kStop && turn.now >= job.formed_ms + kSettleMs) stop_now(turn);
    return;  // a yield is understood only by those that have joined
  }
  if (job.all_active_ms < 0) job.all_active_ms = turn.now;
  if (job.intent == Intent::kStop)
    return begin_yield(turn, job.stop_reason.empty() ? "the job is stopped" : job.stop_reason, job.stop_checkpoint);
  if (job.intent == Intent::kPause) return begin_yield(turn, "the job is paused", true);
  if (job.intent == Intent::kPreempt) return begin_yield(turn, "the job is " + preemption_in_words(job), true);
  const std::vector<std::string> out = leavers(job);
  const auto staying = static_cast<int64_t>(job.current.members.size() - out.size());
  const std::vector<std::string> in = joiners(job, turn.now, job.max_nodes - staying);
  const bool anew = job.shard_now() != "none" && job.replicas_wanted() != job.replicas_now();  // another placement
  if (out.empty() && in.empty() && !anew) return;
  std::string reason = out.empty() ? "" : leaver_reason(job, out);
  if (!in.empty())
    reason += fmt::format("{}{} {}", reason.empty() ? "" : "; ", in_words(in), in.size() == 1 ? "joins" : "join");
  if (anew)
    reason += fmt::format("{}each part of the state is to be on {}", reason.empty() ? "" : "; ",
                          counted(job.replicas_wanted(), "worker"));
  // With too few left nobody would hold the state but in memory, or nobody at all.
  begin_yield(turn, reason, staying + static_cast<int64_t>(in.size()) < job.min_nodes || staying == 0);
}

void advance_yielding(Turn& turn) {
  JobMembership& job = turn.job;
  std::vector<std::string> late;
  for (const auto& [worker, p] : job.participants) {
    if (is_awaited(job, p)) late.push_back(worker);
  }
  if (!late.empty()) {
    if (turn.now >= job.yield_deadline_ms) give_up_yield(turn, in_words(late));
    return;
  }
  if (job.intent == Intent::kStop) return stop_now(turn);
  if (job.yield_checkpoint) check_handover(turn);
  job.stage = Stage::kForming;
  job.cause = Cause::kOrderly;
  job.forming_since_ms = turn.now;
  job.first_ready_ms = -1;
  job.counted = true;  // an end in order is no fault
  job.why = {job.yield_reason};
}

void on_pause(Turn& turn) {
  JobMembership& job = turn.job;
  const bool asked = job.intent == Intent::kPause || job.intent == Intent::kStop;
  if (is_ended(job.state) || job.state == JobState::kPaused || asked) return;
  job.intent = Intent::kPause;
  job.preempted_by.clear();
  turn.note("pause_asked", job.spec.serves() ? "the job is to pause" : "the job is to pause after the step under way");
}

void on_stop(Turn& turn, const StopAsked& asked) {
  JobMembership& job = turn.job;
  if (is_ended(job.state) || job.intent == Intent::kStop) return;
  job.intent = Intent::kStop;
  job.stop_reason = asked.reason;
  job.stop_checkpoint = asked.checkpoint;
  if (job.state == JobState::kPaused || job.stage == Stage::kForming) return stop_now(turn);
  const bool without = !asked.checkpoint && !job.spec.serves();
  turn.note("stop_asked", fmt::format("the job is to stop{}{}{}{}", job.spec.serves() ? "" : " after the step under way",
                                      without ? ", without a checkpoint" : "", asked.reason.empty() ? "" : ": ", asked.reason));
}

void on_resume(Turn& turn) {
  JobMembership& job = turn.job;
  if (is_ended(job.state) || job.intent != Intent::kPause) return;
  job.intent = Intent::kRun;
  if (job.state != JobState::kPaused) {
    turn.note("job_resumed", "the pause is called off");
    return;
  }
  begin_anew(turn, "the job was resumed");
  job.state = JobState::kQueued;
  job.reason = "waiting for workers";
  const KnownCheckpoint* newest = newest_checkpoint(job);
  if (job.spec.serves()) return turn.note("job_resumed", "it serves again when there are workers");
  turn.note("job_resumed", newest != nullptr ? fmt::format("goes on from the checkpoint of step {}", newest->step)
                                             : "goes on from its beginning");
}

void begin_anew(Turn& turn, const std::string& why) {
  JobMembership& job = turn.job;
  job.cause = Cause::kOrderly;
  job.stage = Stage::kForming;
  job.forming_since_ms = turn.now;
  job.first_ready_ms = -1;
  job.why = {why};
  job.counted = true;
}

void free_all(Turn& turn, const std::string& reason) {
  while (!turn.job.participants.empty()) {
    const std::string worker = turn.job.participants.begin()->first;
    turn.free(worker, reason);
  }
}

void stop_now(Turn& turn) {
  JobMembership& job = turn.job;
  commit_up_to(turn, best_memory(job, true));
  const KnownCheckpoint* newest = newest_checkpoint(job);
  const int64_t kept = newest != nullptr ? newest->step : 0;
  const std::string text = job.spec.serves()
                               ? "it serves no more"
                               : fmt::format("stopped at step {}{}", job.committed_step,
                                             kept == job.committed_step && kept > 0 ? ", which is kept as a checkpoint"
                                             : newest != nullptr ? fmt::format("; the newest checkpoint is of step {}", kept)
                                                                 : "; there is no checkpoint");
  if (job.stop_reason.empty()) return end_job(turn, JobState::kCancelled, text);
  end_job(turn, JobState::kFailed,
          fmt::format("{}: {}{}", job.stop_reason, text,
                      newest == nullptr ? "" : fmt::format("; go on with --resume_from job:{}@{}", job.job, kept)));
}

void finish_pause(Turn& turn) {
  JobMembership& job = turn.job;
  commit_up_to(turn, best_memory(job, true));
  const KnownCheckpoint* newest = newest_checkpoint(job);
  const int64_t kept = newest != nullptr ? newest->step : (job.resume.empty() ? 0 : job.resume[0].step);
  std::string text = job.spec.serves() ? "paused" : fmt::format("paused at step {}", kept);
  if (kept < job.committed_step) {
    text += fmt::format("; steps {} to {} are in no checkpoint and will be computed again", kept + 1, job.committed_step);
  }
  job.state = JobState::kPaused;
  job.stage = Stage::kForming;
  job.reason = text;
  turn.note("job_paused", text);
  free_all(turn, fmt::format("job {} is paused", job.job));
}

}  // namespace holdfast::rendezvous
