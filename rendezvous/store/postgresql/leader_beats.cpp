#include "rendezvous/store/postgresql/leader_beats.h"

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <optional>
#include <utility>

#include "rendezvous/store/job_store.h"

namespace holdfast::rendezvous {
namespace {

constexpr std::chrono::milliseconds kBetweenBeats{250};
constexpr int kBeatsBetweenLooks = 12;  // at the other services and the replicas

}  // namespace

LeaderBeats::LeaderBeats(std::unique_ptr<PostgresqlLeadership> leadership, std::function<bool()> heard,
                         std::chrono::milliseconds lease)
    : leadership_(std::move(leadership)),
      heard_(std::move(heard)),
      lease_(lease),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

LeaderBeats::~LeaderBeats() = default;

void LeaderBeats::run(const std::stop_token& stop) {
  std::mutex waiting;
  std::condition_variable_any stopped;
  for (int beat = 0; !stop.stop_requested(); ++beat) {
    try {
      const auto began = std::chrono::steady_clock::now();
      leadership_->beat(heard_());
      std::optional<DatabaseSeen> seen;
      if (beat % kBeatsBetweenLooks == 0) seen = leadership_->look_around();
      const std::lock_guard lock(mutex_);
      confirmed_ = began;
      if (seen) seen_ = *std::move(seen);
    } catch (const StoreError&) {
      const std::lock_guard lock(mutex_);
      ended_ = std::current_exception();
      return;
    }
    std::unique_lock lock(waiting);
    stopped.wait_for(lock, stop, kBetweenBeats, [] { return false; });
  }
}

DatabaseSeen LeaderBeats::seen() const {
  const std::lock_guard lock(mutex_);
  return seen_;
}

void LeaderBeats::check() const {
  const std::lock_guard lock(mutex_);
  if (ended_) std::rethrow_exception(ended_);
  const auto silent = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - confirmed_);
  if (silent <= lease_) return;
  throw StoreAway(fmt::format("the database has not confirmed for {} s that this service leads: another may lead by now",
                              static_cast<double>(silent.count()) / 1000));
}

}  // namespace holdfast::rendezvous
