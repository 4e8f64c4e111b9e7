// Workers as the service sees them: each registers, holds a long-poll open and reports its status every second and at each
// new directive. They compute nothing: told to prepare a job, they go on preparing it until they are told to drop it.
//
// Promises: every worker has two connections of its own, as a real one has for these two things; their heartbeats are spread
// evenly over the second. A heartbeat's time is from before it is sent to the last byte of its answer; a directive's is from
// the moment that the caller names.
// Thread: the loop's.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bench/service_load/event_loop.h"
#include "bench/service_load/http_connection.h"

namespace holdfast::bench {

class Samples {
 public:
  void add(Clock::duration taken) { ms_.push_back(std::chrono::duration<double, std::milli>(taken).count()); }
  size_t count() const { return ms_.size(); }
  double percentile(double percent) const;  // the nearest rank; 0 for none

 private:
  std::vector<double> ms_;
};

// Of all workers together.
struct Tally {
  Samples* heartbeats = nullptr;  // where they are noted now; nullptr: nowhere
  // A push that is waited for: directives of this kind since then.
  std::string pushed_kind;
  Moment pushed_at;
  Samples* pushed = nullptr;
  int64_t arrived = 0;

  int64_t polling = 0;  // workers whose first poll is open
  int64_t missed = 0;   // heartbeats that were due while the one before was not answered
  int64_t errors = 0;   // answers that did not come, or refused
  std::string first_error;

  void note_error(const std::string& what, const HttpAnswer& answer);
};

class SimulatedWorker;

class Fleet {
 public:
  // `place` outlives it.
  Fleet(EventLoop& loop, const Place& place, int workers);
  ~Fleet();
  Fleet(const Fleet&) = delete;

  // Begins their lives, one after the other.
  void start();
  Tally& tally() { return tally_; }

 private:
  EventLoop& loop_;
  Tally tally_;
  std::vector<std::unique_ptr<SimulatedWorker>> workers_;
};

}  // namespace holdfast::bench
