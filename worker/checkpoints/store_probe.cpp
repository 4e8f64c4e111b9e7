#include "worker/checkpoints/store_probe.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

#include "worker/profile/recorder.h"

namespace holdfast::worker {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kFirstLook{20}, kLongestLook{1000}, kLookOnceTold{5000}, kLookAtOwn{30'000};
constexpr const char* kPrefix = "probe/";

std::string key_of(int64_t generation, int rank) {
  return fmt::format("{}{:010}-{}", kPrefix, generation, rank);
}

std::string mark_of(const StoreProbe::Generation& generation) {
  return fmt::format("generation {} of {} ({})\n", generation.number, generation.first, generation.first_incarnation);
}

}  // namespace

StoreProbe::StoreProbe(storage::ObjectStore& store, Tell tell, milliseconds patience)
    : store_(store), tell_(std::move(tell)), patience_(patience), thread_([this] { work(); }) {}

StoreProbe::~StoreProbe() {
  {
    const std::lock_guard lock(mutex_);
    over_ = stopping_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void StoreProbe::begin(Generation generation) {
  const std::lock_guard lock(mutex_);
  elsewhere_ = false;
  settled_ = generation.rank == 0;
  over_ = true;
  next_ = std::move(generation);
  changed_.notify_all();
}

void StoreProbe::end() {
  const std::lock_guard lock(mutex_);
  elsewhere_ = false;
  settled_ = true;
  over_ = true;
  next_.reset();
  changed_.notify_all();
}

bool StoreProbe::wait(milliseconds time) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, time, [this] { return over_; });
}

void StoreProbe::work() {
  name_thread("store probe");
  while (true) {
    Generation generation;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stopping_ || next_; });
      if (stopping_) break;
      generation = *std::exchange(next_, std::nullopt);
      over_ = false;
    }
    remove_own();
    begun_ = steady_clock::now();
    told_of_failure_ = false;
    if (generation.rank == 0) {
      keep_mark(generation);
    } else {
      look_for_mark(generation);
    }
  }
  remove_own();
}

void StoreProbe::tell_of_failure(const std::string& what) {
  if (steady_clock::now() - begun_ < patience_ || told_of_failure_) return;
  const std::lock_guard lock(mutex_);
  if (over_) return;
  told_of_failure_ = true;
  tell_("checkpoint_failed", what);
}

// A store that takes nothing is said, for the others call it another one.
void StoreProbe::keep_mark(const Generation& generation) {
  const std::string mark = mark_of(generation);
  own_ = key_of(generation.number, 0);
  bool is_first = true;
  for (milliseconds pause = kFirstLook;; pause = std::min(2 * pause, is_first ? kLookOnceTold : kLookAtOwn)) {
    if (is_first || look(generation) == Look::kMissing) {
      if (const auto put = store_.put(own_, std::as_bytes(std::span(mark))); !put) {
        tell_of_failure(fmt::format("rank 0, {}, cannot write into {}, where all ranks look whether it is theirs: {}",
                                    generation.first, store_.describe(), put.error().message));
      } else if (std::exchange(is_first, false)) {
        remove_older(generation.number);
      }
    }
    if (wait(pause)) return;
  }
}

void StoreProbe::remove_older(int64_t generation) {
  const auto keys = store_.list(kPrefix);
  if (!keys) return;
  for (const std::string& key : *keys) {
    if (key < key_of(generation, 0)) (void)store_.remove(key);
  }
}

void StoreProbe::remove_own() {
  if (!own_.empty()) (void)store_.remove(std::exchange(own_, ""));
}

StoreProbe::Look StoreProbe::look(const Generation& generation) {
  const std::string mark = mark_of(generation);
  const auto found = store_.get(key_of(generation.number, 0));
  if (found) return std::ranges::equal(*found, std::as_bytes(std::span(mark))) ? Look::kThere : Look::kMissing;
  if (found.error().code == storage::Error::Code::kNotFound) return Look::kMissing;
  problem_ = found.error().message;
  return Look::kUnknown;
}

// A machine may remember for half a minute that a network folder lacks a file (NFS), until it writes there itself.
StoreProbe::Look StoreProbe::look_again_as_a_writer(const Generation& generation) {
  const std::string text = fmt::format("rank {} looks for the mark of rank 0\n", generation.rank);
  own_ = key_of(generation.number, generation.rank);
  const auto put = store_.put(own_, std::as_bytes(std::span(text)));
  const Look seen = put ? look(generation) : Look::kUnknown;
  if (!put) problem_ = put.error().message;
  remove_own();
  return seen;
}

void StoreProbe::look_for_mark(const Generation& generation) {
  for (milliseconds pause = kFirstLook;;) {
    if (wait(pause)) return;
    Look seen = look(generation);
    const bool late = steady_clock::now() - begun_ >= patience_;
    if (seen == Look::kMissing && late && !elsewhere_) {
      seen = look_again_as_a_writer(generation);
      const std::lock_guard lock(mutex_);
      if (over_) return;
      elsewhere_ = seen == Look::kMissing;
      if (elsewhere_) {
        found_elsewhere_ = true;
        tell_(
            "checkpoint_store_not_shared",
            fmt::format("rank {} on node {} does not find in {} what rank 0, {}, has put there: that is another folder on the "
                        "two. Mount the same one on both, or leave checkpoint_store out; until then no checkpoint is written, "
                        "and training goes on",
                        generation.rank, generation.node, store_.describe(), generation.first));
      }
    }
    {
      const std::lock_guard lock(mutex_);
      if (over_) return;
      if (seen == Look::kThere && elsewhere_.exchange(false))
        tell_("checkpoint_store_shared", fmt::format("rank {} on node {} finds in {} what rank 0, {}, has put there",
                                                     generation.rank, generation.node, store_.describe(), generation.first));
      if (seen == Look::kThere || elsewhere_) settled_ = true;
    }
    if (seen == Look::kThere) return;
    if (seen == Look::kUnknown)
      tell_of_failure(fmt::format("rank {} on node {} cannot look in {} for what rank 0, {}, puts there: {}", generation.rank,
                                  generation.node, store_.describe(), generation.first, problem_));
    const milliseconds longest = std::max(kFirstLook, elsewhere_ ? std::min(kLookOnceTold, patience_) : patience_ / 4);
    pause = std::min({2 * pause, elsewhere_ ? kLookOnceTold : kLongestLook, longest});
  }
}

}  // namespace holdfast::worker
