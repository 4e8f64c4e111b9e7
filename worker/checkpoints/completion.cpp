// Checkpoints that all ranks of a divided state write: rank 0 waits for the others' parts, on the writer's thread.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "worker/checkpoints/checkpointing.h"
#include "worker/checkpoints/gathering_parts.h"
#include "worker/profile/recorder.h"

namespace holdfast::worker {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// A part of a rank that is gone is there or comes no more; others may take as long as a slow disk does.
constexpr std::chrono::seconds kPartsOfTheGone{1}, kPartsOfReleased{20}, kPartsOfOthers{300}, kPartsOfLast{150};

}  // namespace

void Checkpointing::make_probe(milliseconds patience) {
  const auto tell = [this](const std::string& kind, const std::string& text) {
    spdlog::warn("{}", text);
    outbox_.event(job_, kind, text);
  };
  probe_ = std::make_unique<StoreProbe>(*store_, tell, patience);
}

void Checkpointing::look_at_store(const std::string& first, const std::string& node) {
  const std::lock_guard lock(mutex_);
  const auto members = members_.find(generation_);
  if (!probe_ || members == members_.end() || members->second.size() < 2) return;
  probe_->begin({generation_, rank_, first, members->second.front(), node});
}

void Checkpointing::others_are_elsewhere(std::string who) {
  const auto under_way = writer_->in_progress();
  const std::lock_guard lock(mutex_);
  if (!who.empty()) {
    strayed_ = {under_way.value_or(failed_.first), "after it began it was found that " + who};
    tried_ = -1;       // another write of it has its own clock
    if (rank_ != 0) {  // this rank's part may be the one that is elsewhere: where the step is waited for, it is written anew
      registered_.erase(submitted_);
      submitted_ = -1;
    }
  }
  elsewhere_ = std::move(who);
  changed_.notify_all();
}

std::string Checkpointing::missing_part() const {
  const std::lock_guard lock(mutex_);
  return missing_part_;
}

bool Checkpointing::lacks_writers_of(int64_t generation) const {
  const auto then = members_.find(generation), now = members_.find(generation_);
  if (then == members_.end() || now == members_.end()) return generation != generation_;
  return std::ranges::any_of(
      then->second, [&](const std::string& member) { return std::ranges::find(now->second, member) == now->second.end(); });
}

// With the lock held. `begun`: since when the parts are waited for.
std::optional<std::string> Checkpointing::reason_to_give_up(const storage::Manifest& manifest, steady_clock::time_point begun) {
  const auto now = steady_clock::now();
  if (stop_.raised() && now - stopped_ > kPartsOfReleased) return stop_.reason();
  if (is_void(manifest)) return "the job went back to before it";
  if (lacks_writers_of(manifest.generation) && now - generation_began_ > kPartsOfTheGone)
    return fmt::format("the job goes on without some workers of generation {}", manifest.generation);
  const bool is_awaited = awaited_ == manifest.step;
  if (!is_awaited && !elsewhere_.empty()) return elsewhere_;
  if (!is_awaited && strayed_.first == manifest.step) return strayed_.second;  // also where the folder has become right since
  if ((!is_awaited || is_last_) && now - begun > (is_awaited ? kPartsOfLast : kPartsOfOthers))
    return "it was waited for long enough";
  return std::nullopt;
}

std::optional<storage::WriteOutcome> Checkpointing::complete(storage::WriteOutcome outcome) {
  const storage::Part part = *std::exchange(outcome.part, std::nullopt);
  if (part.of.writer != 0) {
    spdlog::info("wrote this rank's part of the checkpoint of step {}: stall {:.3f} s, write {:.2f} s", outcome.step,
                 outcome.stall_s, outcome.write_s);
    remember(*outcome.result, true);
    return std::nullopt;
  }
  const Span span(SpanKind::kCheckpoint, "checkpoint: parts of the others", outcome.step);
  const auto begun = steady_clock::now();
  const storage::Manifest own = *outcome.result;
  const PartsGathering gathering{*store_,
                                 [&](milliseconds pause) {
                                   std::unique_lock lock(mutex_);
                                   changed_.wait_for(lock, pause);
                                   return reason_to_give_up(own, begun);
                                 },
                                 [&](const std::string& text) {
                                   spdlog::warn("the checkpoint of step {} is not whole yet: {}", own.step, text);
                                   outbox_.event(job_, "checkpoint_failed",
                                                 fmt::format("the checkpoint of step {} is not whole yet: {}", own.step, text));
                                 },
                                 [&](const std::string& which) {
                                   const std::lock_guard lock(mutex_);
                                   missing_part_ = fmt::format("that of step {} lacks {}", own.step, which);
                                 }};
  outcome.result = gathering.run(own, part);
  {
    const std::lock_guard lock(mutex_);
    missing_part_.clear();
  }
  outcome.write_s += std::chrono::duration<double>(steady_clock::now() - begun).count();
  if (outcome.result || outcome.result.error().code != storage::Error::Code::kUnavailable) return outcome;
  skip(own.step, outcome.result.error().message);
  const std::lock_guard lock(mutex_);
  last_wait_.write_ended(own.step, false, steady_clock::now());
  tidied_ = false;                              // others have written their parts of it
  if (submitted_ == own.step) submitted_ = -1;  // a thread that waits for this step writes it anew
  return std::nullopt;
}

}  // namespace holdfast::worker
