// The fake clock and all that is still to happen: time passes only from one event to the next.
//
// Promises: events run in the order of their times, those of the same millisecond in the order in which they were planned.
#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "rendezvous/coordinator/clock.h"

namespace holdfast::sim {

class Timeline : public rendezvous::Clock {
 public:
  int64_t steady_ms() const override { return kBoot + now_; }
  int64_t wall_ms() const override { return kMidnight + now_; }
  int64_t now() const { return now_; }  // since the simulation began

  void after(int64_t ms, std::function<void()> what) { events_.push({now_ + ms, ++planned_, std::move(what)}); }

  // The next event happens; false: there is none.
  bool step() {
    if (events_.empty()) return false;
    auto what = std::move(const_cast<Event&>(events_.top()).what);  // popped before anybody compares it again
    now_ = events_.top().at;
    events_.pop();
    what();
    return true;
  }

 private:
  static constexpr int64_t kBoot = 5'000'000, kMidnight = 1'800'000'000'000;
  struct Event {
    int64_t at, order;
    std::function<void()> what;
    bool operator<(const Event& other) const { return at != other.at ? at > other.at : order > other.order; }
  };
  int64_t now_ = 0, planned_ = 0;
  std::priority_queue<Event> events_;
};

}  // namespace holdfast::sim
