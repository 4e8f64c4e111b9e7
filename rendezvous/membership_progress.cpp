// What a generation achieves: committed steps, checkpoints, and the end of the job.
#include <fmt/format.h>

#include "rendezvous/membership_turn.h"

namespace holdfast::rendezvous {
namespace {

void note_progress(Turn& turn, const Progress& progress) {
  JobMembership& job = turn.job;
  if (progress.step <= job.committed_step) return;  // said again: its reply was lost
  commit_up_to(turn, progress.step);
  job.fruitless = 0;
  if (!progress.points.empty()) job.step_s = progress.points.back().step_s;
  if (!job.resumed_noted) {
    job.resumed_noted = true;
    const double pause_s = job.last_commit_ms < 0 ? -1 : static_cast<double>(turn.now - job.last_commit_ms) / 1000;
    turn.note("progress_resumed", fmt::format("generation {} goes on at step {}{}", job.current.number, progress.step,
                                              pause_s < 0 ? "" : fmt::format(", after {:.1f} s without progress", pause_s)));
  }
  job.last_commit_ms = turn.now;
}

std::string where_to_resume(const JobMembership& job) {
  const KnownCheckpoint* newest = newest_checkpoint(job);
  if (newest == nullptr) return "; there is no checkpoint to resume from";
  return fmt::format("; its last good checkpoint is that of step {}: resume with --resume_from job:{}@{}", newest->step,
                     job.job, newest->step);
}

}  // namespace

void commit_up_to(Turn& turn, int64_t step) {
  JobMembership& job = turn.job;
  if (step <= job.committed_step) return;
  turn.effects.emplace_back(StepsCommitted{job.current.number, job.committed_step + 1, step});
  job.committed_step = step;
}

void on_progress(Turn& turn, const Progress& progress) {
  JobMembership& job = turn.job;
  if (is_ended(job.state) || job.state == JobState::kPaused) return;
  if (stale(job, progress.worker, progress.incarnation, progress.generation, true)) return;
  note_progress(turn, progress);
  if (!progress.failure.empty()) return end_job(turn, JobState::kFailed, progress.failure + where_to_resume(job));
  if (progress.finished) end_job(turn, JobState::kSucceeded, fmt::format("all {} steps are done", job.spec.total_steps));
}

int64_t went_back_below(const JobMembership& job, int64_t step, int64_t generation) {
  if (generation <= 0) return 0;
  for (auto later = job.began_at.upper_bound(generation); later != job.began_at.end(); ++later) {
    if (later->second < step) return later->first;
  }
  return 0;
}

std::optional<Staleness> stale_state(const JobMembership& job, const CheckpointRecord& record) {
  const int64_t later = went_back_below(job, record.step, record.state_generation);
  if (later == 0) return std::nullopt;
  return Staleness{"stale_state",
                   fmt::format("the state of step {} was computed in generation {} of job {}, and generation {} went back to "
                               "step {}: it is not of the job's history any more",
                               record.step, record.state_generation, job.job, later, job.began_at.at(later))};
}

void on_checkpoint(Turn& turn, const CheckpointRecord& record) {
  JobMembership& job = turn.job;
  if (stale(job, record.worker, record.incarnation, record.generation, false) || stale_state(job, record)) return;
  for (const int64_t step : record.removed_steps) job.checkpoints.erase(step);
  const KnownCheckpoint checkpoint{record.step, record.store, record.state_hash, false};
  const auto found = job.checkpoints.find(record.step);
  if (found != job.checkpoints.end() && found->second == checkpoint) return;  // said again
  job.checkpoints[record.step] = checkpoint;
  job.handover_failed = false;
  commit_up_to(turn, record.step);
  turn.note("checkpoint_committed",
            fmt::format("step {}: {:.1f} MB in {} shard{}, written in {:.2f} s while training went on; the stall was {:.0f} ms",
                        record.step, static_cast<double>(record.stored_bytes) / 1e6, record.shards,
                        record.shards == 1 ? "" : "s", record.write_s, record.stall_s * 1000),
            record.worker);
}

void end_job(Turn& turn, JobState state, const std::string& reason) {
  JobMembership& job = turn.job;
  job.state = state;
  job.reason = reason;
  job.stage = Stage::kForming;
  turn.note(fmt::format("job_{}", job_state_name(state)), reason);
  while (!job.participants.empty()) {
    const std::string worker = job.participants.begin()->first;
    turn.free(worker, fmt::format("job {} {}", job.job, job_state_name(state)));
  }
}

}  // namespace holdfast::rendezvous
