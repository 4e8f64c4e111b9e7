// The beats of the service that leads, on a thread of their own.
//
// A beat confirms that this service still leads in its term, and the leadership is a lease from the beginning of one beat:
// check() lets nobody answer as the leader who has not confirmed for so long. A leader that only reads ends so, too: one that
// was frozen at its first look at the clock, one whose term passed without its connection being lost at its next beat. Thread:
// check() from any.
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>

#include "rendezvous/store/postgresql/leadership.h"

namespace holdfast::rendezvous {

class LeaderBeats {
 public:
  // `leadership` has been taken. It is given up when this object goes. `heard`: whether anybody asked this leader for something
  // since it was called last; from the thread of the beats. `lease`: of a clock that does not jump; the others' patience is not
  // shorter.
  explicit LeaderBeats(
      std::unique_ptr<PostgresqlLeadership> leadership, std::function<bool()> heard = [] { return true; },
      std::chrono::milliseconds lease = LeadershipOptions{}.patience);
  ~LeaderBeats();
  LeaderBeats(const LeaderBeats&) = delete;
  LeaderBeats& operator=(const LeaderBeats&) = delete;

  // Throws what ended the beats, LostLeadership or StoreAway, if anything has; StoreAway where the lease is over.
  void check() const;
  DatabaseSeen seen() const;  // as it was some seconds ago

 private:
  void run(const std::stop_token& stop);

  const std::unique_ptr<PostgresqlLeadership> leadership_;
  const std::function<bool()> heard_;
  const std::chrono::milliseconds lease_;
  mutable std::mutex mutex_;  // guards the next three
  std::exception_ptr ended_;
  DatabaseSeen seen_;
  std::chrono::steady_clock::time_point confirmed_ = std::chrono::steady_clock::now();
  std::jthread thread_;  // last: it uses the rest
};

}  // namespace holdfast::rendezvous
