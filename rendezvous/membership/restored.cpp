// A database that was restored from an older copy, while the workers went on.
//
// Promises: the number of a generation that any worker speaks of is never used again: the job's number jumps to it, durably,
// and the next generation is above it. Steps are kept: a worker with a state of the newest generation spoken of holds the job's
// state, however little the database knows of it. An event says which records the database lacks, and none are made up: the
// ledger has no rows for steps whose members it does not know.
// Cannot know: generations and jobs of which no living worker speaks and no checkpoint is on the service's disk. Their rings
// and messages are refused all the same, by their secrets and incarnations.
#include <fmt/format.h>

#include <algorithm>

#include "rendezvous/membership/turn.h"

namespace holdfast::rendezvous {
namespace {

// Workers report every second: who lives has spoken by then.
constexpr Millis kListenMs = 3000;
// The service may not be reachable yet when it looks at its disk, and a worker tries again every few seconds.
constexpr Millis kListenFromStartMs = 10000;

std::string steps_in_words(int64_t first, int64_t last) {
  return first == last ? fmt::format("step {}", first) : fmt::format("steps {} to {}", first, last);
}

// The job's number is at least `generation`, though the database knows nothing of it. Whether this is the first to show so.
bool jump_to(Turn& turn, int64_t generation) {
  JobMembership& job = turn.job;
  const bool first = !is_outrun(job);
  job.current = Generation{};
  job.current.number = job.outrun_to = generation;
  // The database's knowledge of who holds which state is of the past.
  if (first) ++job.lineage;
  job.current.lineage = job.lineage;
  turn.effects.emplace_back(Outrun{job.current});
  return first;
}

void form_anew(Turn& turn, bool first) {
  JobMembership& job = turn.job;
  if (is_ended(job.state) || job.state == JobState::kPaused) return;
  job.stage = Stage::kForming;
  job.cause = Cause::kOrderly;
  if (first) job.forming_since_ms = turn.now;
  job.first_ready_ms = -1;
  job.counted = true;
  if (job.resumed_noted) job.halted_ms = turn.now;
  job.resumed_noted = false;
  job.why = {"the database was restored from an older copy"};
  job.reason = "the next generation is being formed: " + job.why[0];
}

std::string consequence(const JobMembership& job, const NewerSeen& seen) {
  if (is_ended(job.state)) return fmt::format("the job stays {}, as the database has it", job_state_name(job.state));
  if (job.state == JobState::kPaused) {
    return fmt::format(
        "the job stays paused, as the database has it; {} is told to drop what it holds{}, checkpoints on disk stay",
        seen.worker, seen.status.step < 0 ? "" : fmt::format(" (step {})", seen.status.step));
  }
  return fmt::format("generation {} will form from whoever holds the newest state", job.current.number + 1);
}

}  // namespace

bool is_outrun(const JobMembership& job) {
  return job.current.number > 0 && job.current.members.empty();
}

int64_t newest_state_generation(const JobMembership& job) {
  int64_t newest = 0;
  for (const auto& [worker, p] : job.participants) newest = std::max(newest, p.status.state_generation);
  return newest;
}

bool is_listening(const JobMembership& job, Millis now) {
  return now < std::max(job.forming_since_ms + kListenMs, job.listen_until_ms);
}

void on_newer_seen(Turn& turn, const NewerSeen& seen) {
  JobMembership& job = turn.job;
  const int64_t known = job.current.number;
  if (seen.status.generation <= known) return;
  const bool first = jump_to(turn, seen.status.generation);
  turn.note(
      "database_older",
      fmt::format("the database knows generation {} at step {}, and {} speaks of generation {}{}: it was restored from a copy "
                  "older than the workers; {}",
                  known, job.committed_step, seen.worker, seen.status.generation,
                  seen.status.step < 0 ? "" : fmt::format(" at step {}", seen.status.step), consequence(job, seen)),
      seen.worker);
  form_anew(turn, first);
}

void on_checkpoints_found(Turn& turn, const CheckpointsFound& found) {
  JobMembership& job = turn.job;
  const int64_t known = job.current.number;
  if (is_ended(job.state)) return;
  // Checkpoints of the present generation disturb nobody: living workers hold a newer state, and else the newest one is taken.
  const bool newer = found.generation > known;
  const bool first = newer && jump_to(turn, found.generation);
  if (newer) job.listen_until_ms = turn.now + kListenFromStartMs;
  std::string steps;
  for (const KnownCheckpoint& checkpoint : found.checkpoints) {
    job.checkpoints[checkpoint.step] = checkpoint;
    steps += fmt::format("{}{}", steps.empty() ? "" : ", ", checkpoint.step);
  }
  turn.note(
      "checkpoint_found",
      fmt::format("checkpoints of step {} are on disk, written in generations up to {}, and the database knows generation {} "
                  "at step {}: it was restored from an older copy. They count from now on",
                  steps, found.generation, known, job.committed_step));
  if (newer) form_anew(turn, first);
}

void note_missing_records(Turn& turn, int64_t first, int64_t last) {
  turn.note(
      "records_missing",
      fmt::format("{} {} done, and this database has no record of {}, which happens when it was restored from an older "
                  "copy: training goes on after {}, but the ledger and the metrics have a gap there, and an audit names it",
                  steps_in_words(first, last), first == last ? "was" : "were", first == last ? "it" : "them",
                  steps_in_words(last, last)));
}

}  // namespace holdfast::rendezvous
