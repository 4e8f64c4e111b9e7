// The part of checkpointing.h that removes files once a checkpoint is registered: older checkpoints, and what crashed writers
// left.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <utility>

#include "worker/checkpoints/checkpointing.h"
#include "worker/profile/recorder.h"

namespace holdfast::worker {
namespace {

using rendezvous::CheckpointRecord;

constexpr std::chrono::seconds kLastWord{2};  // a worker that is told to leave waits for it

}  // namespace

// A thread that waits for the next checkpoint is patient while files are removed, and no longer than usual while the service is
// told.
void Checkpointing::remove_older(CheckpointRecord& record, const storage::Manifest& manifest, std::span<const int64_t> needed) {
  const auto removal = [this](bool begins) {
    const std::lock_guard lock(mutex_);
    last_wait_.removal(begins, std::chrono::steady_clock::now());
  };
  removal(true);
  record.removed_steps = apply_retention(manifest.step, needed);
  if (copier_) copier_->look(true);
  removal(false);
  if (!record.removed_steps.empty()) report_removed(record, manifest);
  removal(true);
  tidy_up(manifest);
  removal(false);
}

std::vector<int64_t> Checkpointing::apply_retention(int64_t newest, std::span<const int64_t> needed) {
  const Span span(SpanKind::kCheckpoint, "checkpoint: verify, remove older ones", newest);
  storage::Retention done = storage::apply_retention(*store_, keep_last_, newest, threads_, nullptr, needed, true);
  if (!done.problem && !stop_.raised()) {
    const bool damaged = done.problem.error().code == storage::Error::Code::kCorrupt;
    const std::string text =
        damaged ? fmt::format("the checkpoint of step {} does not verify, older ones are kept: {}", newest,
                              done.problem.error().message)
                : fmt::format(
                      "not all checkpoints older than the newest {} could be removed, which is tried again after the next "
                      "one: {}",
                      keep_last_, done.problem.error().message);
    spdlog::error("{}", text);
    outbox_.event(job_, damaged ? "checkpoint_failed" : "retention_failed", text);
  }
  // The catalogue keeps what the second place still has.
  if (copier_) std::erase_if(done.removed, [this](int64_t step) { return copier_->has(step); });
  return std::move(done.removed);
}

// A job's last checkpoint is registered, and the job is released, before the older ones are removed: the service hears of that
// all the same, unless it is away just then.
void Checkpointing::report_removed(CheckpointRecord& record, const storage::Manifest& manifest) {
  if (register_checkpoint(record, manifest) || !stop_.raised()) return;
  link_.attempt(*link_.make_client(), "POST", checkpoints_path(), rendezvous::json_text(record), kLastWord, false);
}

// Removes the files that crashed writers left. Not before the second checkpoint of a generation: until then a writer of the
// generation before may still be at work, which was left out and does not know it yet.
void Checkpointing::tidy_up(const storage::Manifest& manifest) {
  {
    const std::lock_guard lock(mutex_);
    if (rank_ != 0 || manifest.generation != generation_ || ++written_in_generation_ < 2 || tidied_ || reserved_ >= 0) return;
    tidied_ = true;
  }
  const std::lock_guard nothing_begins(begin_mutex_);
  std::vector<int64_t> in_progress;
  if (const auto step = writer_->in_progress()) in_progress.push_back(*step);
  {
    const std::lock_guard lock(mutex_);
    in_progress.push_back(reserved_);
    for (const storage::WriteOutcome& written : outcomes_) in_progress.push_back(written.step);
    if (failed_.first == tried_ || failed_.first == submitted_)
      in_progress.push_back(failed_.first);  // to be tried again: others have written their parts of it
  }
  const auto removed = storage::remove_orphans(*store_, in_progress);
  if (removed && !removed->empty())
    spdlog::info("removed {} files of unfinished checkpoints in {}", removed->size(), store_->describe());
}

}  // namespace holdfast::worker
