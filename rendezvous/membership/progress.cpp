// The achievements of a generation: committed steps, checkpoints, and the end of the job.
#include <fmt/format.h>

#include "rendezvous/membership/rifts.h"
#include "rendezvous/membership/turn.h"
#include "rendezvous/text/plural.h"

namespace holdfast::rendezvous {
namespace {

double seconds(Millis from, Millis to) {
  return static_cast<double>(to - from) / 1000;
}

std::string end_in_words(const JobMembership& job) {
  const StateSource& source = job.current.source;
  const bool had_none =
      source.kind == StateSource::Kind::kCheckpoint && source.job != job.job && source.step == job.committed_step;
  if (had_none) return fmt::format("nothing was left to train: all {} steps were done where it began", job.committed_step);
  return fmt::format("all {} steps are done", job.committed_step);
}

// Tells people how long the job stood still, and how much of that each cause took.
void note_resumed(Turn& turn, int64_t step) {
  JobMembership& job = turn.job;
  std::string text = fmt::format("generation {} goes on at step {}", job.current.number, step);
  if (job.last_commit_ms >= 0) {
    text += fmt::format(", after {:.1f} s without progress", seconds(job.last_commit_ms, turn.now));
    if (job.halted_ms >= job.last_commit_ms) {
      text += fmt::format(
          " ({:.1f} s until the fault was known, {:.1f} s until the generation formed, {:.1f} s until its step was done)",
          seconds(job.last_commit_ms, job.halted_ms), seconds(job.halted_ms, job.formed_ms), seconds(job.formed_ms, turn.now));
    }
  }
  if (!job.halted_why.empty()) text += ": " + job.halted_why;
  turn.note("progress_resumed", text);
  job.resumed_noted = true;
  job.halted_ms = -1;
}

void note_progress(Turn& turn, const Progress& progress) {
  JobMembership& job = turn.job;
  if (progress.step <= job.committed_step) return;  // said again: its reply was lost
  // Points lead up to the step without a gap, from the last that a service confirmed: what this one lacks, it lost.
  const int64_t first = progress.points.empty() ? progress.step + 1 : progress.points.front().step;
  if (first > job.committed_step + 1) {
    note_missing_records(turn, job.committed_step + 1, first - 1);
    job.committed_step = first - 1;
  }
  commit_up_to(turn, progress.step);
  job.fruitless = 0;
  settle_doubt(job);
  forget_bridged_rifts(job);
  if (!progress.points.empty()) job.step_s = progress.points.back().step_s;
  if (!job.resumed_noted) note_resumed(turn, progress.step);
  job.last_commit_ms = turn.now;
}

}  // namespace

std::string where_to_resume(const JobMembership& job) {
  const KnownCheckpoint* newest = newest_checkpoint(job);
  if (newest == nullptr) return "; there is no checkpoint to resume from";
  return fmt::format("; its last good checkpoint is that of step {}: resume with --resume_from job:{}@{}", newest->step,
                     job.job, newest->step);
}

void commit_up_to(Turn& turn, int64_t step) {
  JobMembership& job = turn.job;
  if (step <= job.committed_step) return;
  if (is_outrun(job)) {  // by whom is not known
    note_missing_records(turn, job.committed_step + 1, step);
    job.committed_step = step;
    return;
  }
  turn.effects.emplace_back(StepsCommitted{job.current.number, job.committed_step + 1, step});
  job.committed_step = step;
}

void on_progress(Turn& turn, const Progress& progress) {
  JobMembership& job = turn.job;
  if (is_dormant(job)) return;
  if (stale(job, progress.worker, progress.incarnation, progress.generation, true)) return;
  note_progress(turn, progress);
  if (!progress.failure.empty()) return fail(turn, progress.failure, true);
  if (progress.finished) end_job(turn, JobState::kSucceeded, end_in_words(job));
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
  job.checkpoint_s = record.stall_s + record.write_s;
  job.handover_failed = false;
  commit_up_to(turn, record.step);
  turn.note("checkpoint_committed",
            fmt::format("step {}: {:.1f} MB in {}, written in {:.2f} s while training went on; the stall was {:.0f} ms",
                        record.step, static_cast<double>(record.stored_bytes) / 1e6, counted(record.shards, "shard"),
                        record.write_s, record.stall_s * 1000),
            record.worker);
}

void end_job(Turn& turn, JobState state, const std::string& reason) {
  JobMembership& job = turn.job;
  job.state = state;
  job.reason = reason;
  job.stage = Stage::kForming;
  turn.note(fmt::format("job_{}", job_state_name(state)), reason);
  free_all(turn, fmt::format("job {} {}", job.job, job_state_name(state)));
}

}  // namespace holdfast::rendezvous
