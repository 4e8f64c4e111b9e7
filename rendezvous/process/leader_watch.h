// Whether the service that leads answers at its address, as one that stands by sees it.
//
// Asks /healthz of it twice a second. Any answer is one, a refusal too; silence is none, nor is a connection that cannot be
// made. The silence of a leader that never answered here tells nothing: its address may be good elsewhere alone.
//
// Thread: its own; all functions from any.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

namespace holdfast::rendezvous {

class LeaderWatch {
 public:
  using Moment = std::chrono::steady_clock::time_point;

  LeaderWatch();
  ~LeaderWatch();
  LeaderWatch(const LeaderWatch&) = delete;

  // From now on this one is asked; "": none.
  void look_at(const std::string& address);
  // Since when it answers nothing; none: it does, or its silence tells nothing.
  std::optional<Moment> unanswered_since() const;

 private:
  void run(const std::stop_token& stop);
  bool answers(const std::string& address) const;
  void note(const std::string& address, Moment asked, bool answered);

  std::atomic<bool> ends_ = false;  // a request under way
  mutable std::mutex mutex_;        // guards what follows
  std::condition_variable_any changed_;
  std::string address_, reached_;  // that is asked; the last that ever answered
  Moment answered_;                // when the present one did, or was first looked at
  std::optional<Moment> unanswered_since_;
  std::jthread thread_;  // last: it uses the rest
};

}  // namespace holdfast::rendezvous
