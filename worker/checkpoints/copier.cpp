#include "worker/checkpoints/copier.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "storage/copies/copying.h"
#include "worker/profile/recorder.h"

namespace holdfast::worker {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLongestCopyPause{60'000};
constexpr int kTriesAtTheEnd = 3;
constexpr int64_t kBehind = 2;  // checkpoints that came while one was copied

std::string time_now() {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(std::chrono::system_clock::now())));
}

}  // namespace

Copier::Copier(CopySetup setup) : setup_(std::move(setup)), client_(setup_.link.make_client()) {
  thread_ = std::thread([this] { work(); });
}

Copier::~Copier() {
  {
    const std::scoped_lock lock(mutex_);
    stop_.raise("the worker ends");
    changed_.notify_all();
  }
  client_->cancel();
  thread_.join();
}

void Copier::look(bool is_new) {
  const std::scoped_lock lock(mutex_);
  if (is_new) ++came_meanwhile_;
  wanted_ = true;
  changed_.notify_all();
}

void Copier::finish() {
  const std::scoped_lock lock(mutex_);
  finishing_ = true;
  changed_.notify_all();
}

bool Copier::is_done() const {
  const std::scoped_lock lock(mutex_);
  return done_;
}

bool Copier::has(int64_t step) const {
  const std::scoped_lock lock(mutex_);
  return there_.contains(step);
}

void Copier::work() {
  name_thread("checkpoint copier");
  milliseconds pause = setup_.first_pause;
  bool was_finishing = false;
  for (int failures = 0;;) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return wanted_ || finishing_ || stop_.raised(); });
      if (finishing_ && !std::exchange(was_finishing, true)) failures = 0;  // tries at the end are those from here on
      const bool given_up = finishing_ && failures >= kTriesAtTheEnd;
      if (stop_.raised() || (finishing_ && (!wanted_ || given_up))) {
        done_ = true;
        return;
      }
    }
    const auto copied = copy_next();
    if (copied) {
      failures = 0;
      pause = setup_.first_pause;
      continue;
    }
    if (stop_.raised()) continue;
    bool ends = false;
    {
      const std::scoped_lock lock(mutex_);
      ends = finishing_ && failures + 1 >= kTriesAtTheEnd;
    }
    ++failures;
    note_failure(copied.error(), ends);
    if (ends) continue;
    stop_.wait_for(pause);
    pause = std::min(kLongestCopyPause, pause * 2);
  }
}

storage::Result<void> Copier::open_stores() {
  if (!first_) {
    auto opened = setup_.open_first(stop_.flag());
    if (!opened) return tl::unexpected(opened.error());
    first_ = *std::move(opened);
  }
  if (second_) return {};
  auto opened = setup_.open_second(stop_.flag());
  if (!opened) return tl::unexpected(opened.error());
  second_ = *std::move(opened);
  return {};
}

// The newest that is not in the second place as it is in the first; then, where all are kept, the newest of the others.
storage::Result<std::optional<int64_t>> Copier::next_step() {
  const auto steps = storage::list_checkpoints(*first_);
  if (!steps) return tl::unexpected(steps.error());
  const auto copies = storage::list_checkpoints(*second_);
  if (!copies) return tl::unexpected(copies.error());
  {
    const std::scoped_lock lock(mutex_);
    there_ = {copies->begin(), copies->end()};
  }
  if (steps->empty()) return std::optional<int64_t>();
  const int64_t newest = steps->back();
  if (!std::ranges::binary_search(*copies, newest)) return std::optional(newest);
  const auto here = storage::read_manifest(*first_, newest), there = storage::read_manifest(*second_, newest);
  if (!here && here.error().code != storage::Error::Code::kNotFound) return tl::unexpected(here.error());
  if (here && (!there || there->state_hash != here->state_hash || there->generation != here->generation))
    return std::optional(newest);
  const auto missing =
      std::find_if(steps->rbegin(), steps->rend(), [&](int64_t step) { return !std::ranges::binary_search(*copies, step); });
  if (setup_.keep_last > 0 || missing == steps->rend()) return std::optional<int64_t>();
  return std::optional(*missing);
}

storage::Result<void> Copier::copy_next() {
  if (auto opened = open_stores(); !opened) return opened;
  {
    const std::scoped_lock lock(mutex_);
    came_meanwhile_ = 0;
    wanted_ = false;  // a look() that comes from now on counts again
  }
  const auto want_again = [this] {
    const std::scoped_lock lock(mutex_);
    wanted_ = true;
  };
  const auto step = next_step();
  if (!step) {
    want_again();
    return tl::unexpected(step.error());
  }
  if (!*step) return {};
  const auto copied =
      storage::copy_checkpoint(*first_, *second_, **step, {.bytes_per_s = setup_.bytes_per_s, .stop = stop_.flag()});
  want_again();
  if (!copied) {
    const auto lacks = [](const auto& found) { return !found && found.error().code == storage::Error::Code::kNotFound; };
    const bool was_removed = lacks(copied) && lacks(storage::read_manifest(*first_, **step));  // as newer ones came
    return was_removed ? storage::Result<void>() : tl::unexpected(copied.error());
  }
  last_problem_.clear();
  bool is_behind = false;
  {
    const std::scoped_lock lock(mutex_);
    there_.insert(**step);
    is_behind = came_meanwhile_ >= kBehind && !std::exchange(is_behind_, came_meanwhile_ >= kBehind);
    if (came_meanwhile_ == 0) is_behind_ = false;
  }
  event("checkpoint_copied", fmt::format("the checkpoint of step {} is in {}, too: {:.1f} MB were sent", **step,
                                         second_->describe(), static_cast<double>(copied->sent_bytes) / 1e6));
  if (is_behind) {
    event(
        "checkpoint_copy_behind",
        fmt::format("while the checkpoint of step {} was copied to {} several newer ones were written: raise copy_mib_per_s or "
                    "checkpoint_every",
                    **step, second_->describe()));
  }
  tell_service(copied->manifest, remove_older(**step));
  return {};
}

std::vector<int64_t> Copier::remove_older(int64_t newest) {
  storage::Retention done = storage::apply_retention(*second_, setup_.keep_last, newest, setup_.threads, stop_.flag());
  if (!done.problem && !stop_.raised()) note_failure(done.problem.error(), false);
  // In this order: whoever removes from the first place at the same time either finds the step here no more, and tells of it,
  // or has removed it before it is looked for there.
  {
    const std::scoped_lock lock(mutex_);
    for (const int64_t step : done.removed) there_.erase(step);
  }
  const auto first = storage::list_checkpoints(*first_);
  if (!first) return {};
  std::erase_if(done.removed, [&](int64_t step) { return std::ranges::binary_search(*first, step); });
  return std::move(done.removed);
}

void Copier::tell_service(const storage::Manifest& manifest, std::vector<int64_t> removed) {
  rendezvous::CheckpointRecord record;
  record.worker = setup_.link.options().worker;
  record.incarnation = setup_.link.options().incarnation;
  record.step = manifest.step;
  record.state_hash = manifest.state_hash;
  record.created_at = manifest.created_at;
  record.generation = manifest.generation;
  record.removed_steps = std::move(removed);
  record.copy = setup_.place;
  record.copied_at = time_now();
  const auto delivery =
      setup_.link.deliver(*client_, "/v1/jobs/" + setup_.job + "/checkpoints", rendezvous::json_text(record), stop_);
  if (delivery.how != Delivery::How::kDelivered && !stop_.raised())
    spdlog::warn("the service does not know that the checkpoint of step {} was copied: {}", manifest.step,
                 delivery.problem.detail);
}

void Copier::note_failure(const storage::Error& error, bool is_last) {
  const std::string text =
      fmt::format("the newest checkpoint is not copied to {}, {}: {}", setup_.place,
                  is_last ? fmt::format("and is not tried again here (`holdfast ckpt mend job:{}` copies it)", setup_.job)
                          : "training goes on, and it is tried again",
                  error.message);
  if (std::exchange(last_problem_, text) != text) event("checkpoint_copy_failed", text);
}

void Copier::event(const std::string& kind, const std::string& text) {
  spdlog::info("{}", text);
  setup_.outbox.event(setup_.job, kind, text);
}

}  // namespace holdfast::worker
