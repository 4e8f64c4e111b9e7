// Writes that fail: what is told of them, when they are tried again, and when the last one is given up.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>

#include "worker/checkpoints/checkpointing.h"

namespace holdfast::worker {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kFirstRetry{5000}, kLongestRetry{60'000}, kAskAgain{1000};

}  // namespace

// The number of a generation that the service does not know is above all that it gives out: the next one writes over it.
RunStop Checkpointing::stop_of(const storage::WriteOutcome& refused) {
  const std::string& why = refused.result.error().message;
  const auto there = storage::read_manifest(*store_, refused.step);
  const std::lock_guard lock(mutex_);
  const bool newer = there && there->job == job_ && there->generation > generation_;
  if (newer) return superseded(there->generation, why);
  // Bytes that are not the state's: fresh copies are right, and all ranks make theirs in the next generation.
  return refused.result.error().code == storage::Error::Code::kCorrupt ? fault("checkpoint_failed", why) : job_failed(why);
}

void Checkpointing::note_failure(const storage::WriteOutcome& outcome) {
  const storage::Error& error = outcome.result.error();
  const bool for_good = error.code == storage::Error::Code::kRefused || error.code == storage::Error::Code::kCorrupt;
  const RunStop stop = for_good ? stop_of(outcome) : RunStop{};
  const std::lock_guard lock(mutex_);
  retry_delay_ = std::clamp(retry_delay_ * 2, kFirstRetry, kLongestRetry);
  tidied_ = false;  // of a divided state others may have written their parts of it
  failed_ = {outcome.step, error.message};
  if (for_good) {
    refused_[outcome.step] = stop;
  } else {
    retry_at_ = steady_clock::now() + retry_delay_;
  }
  changed_.notify_all();
  const std::string next = for_good ? "it is not tried again in this generation"
                                    : fmt::format("it is tried again in {} s", retry_delay_.count() / 1000);
  const std::string text =
      fmt::format("the checkpoint of step {} could not be written, {} and {}: {}", outcome.step,
                  awaited_ == outcome.step ? "the job waits for it" : "training goes on", next, error.message);
  spdlog::error("{}", text);
  outbox_.event(job_, "checkpoint_failed", text);
}

void Checkpointing::retry() {
  const std::unique_lock begins(begin_mutex_, std::try_to_lock);
  {
    const std::lock_guard lock(mutex_);
    if (!begins || reserved_ >= 0) {
      retry_at_ = steady_clock::now() + kAskAgain;
      changed_.notify_all();
      return;
    }
  }
  if (writer_->retry() || writer_->in_progress()) return;
  const std::lock_guard lock(mutex_);
  submitted_ = -1;  // there is no copy to write again (no memory for it): the thread that waits submits anew
}

void Checkpointing::retry_if_due() {
  {
    const std::lock_guard lock(mutex_);
    if (!retry_at_ || steady_clock::now() < *retry_at_) return;
    retry_at_.reset();
  }
  retry();
}

// With the lock held.
RunStop Checkpointing::not_in_time(int64_t step) const {
  const bool is_written = failed_.first != step;
  const std::string text = fmt::format("the checkpoint of step {}, the last one, could not be {} in time: {}", step,
                                       is_written ? "registered" : "written",
                                       is_written ? "what is written of it is in " + store_->describe() : failed_.second);
  outbox_.event(job_, "checkpoint_failed", text);
  return interrupted(text);
}

}  // namespace holdfast::worker
