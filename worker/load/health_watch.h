// From readings of a GPU's health to news that are worth an event.
//
// Promises: pure but for what it remembers. News are of changes: counters that grew, errors that came, heat that begins to hold
// the clocks down and that stops. The first reading is the state of things, of which only uncorrected errors are news: a
// process that they ended has another one after it. Of each kind there is one piece of news in kQuiet at most; what comes
// meanwhile is counted and told in the next. Counters that fell (the driver was loaded again, the GPU reset) are counted from
// there. Thread: one at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "worker/load/health.h"

namespace holdfast::worker {

struct HealthNews {
  std::string kind;  // of the event: gpu_errors, gpu_corrected_errors, gpu_hot, gpu_cool
  std::string message;
};

class HealthWatch {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::minutes kQuiet{10};
  // Heat that stops for less than this goes on: at a limit a GPU is slowed down and let go many times a minute.
  static constexpr std::chrono::seconds kCoolFor{60};

  // `device` is its name in messages: "hip:0 at 0000:03:00.0 (AMD Radeon Pro W7900)".
  explicit HealthWatch(std::string device) : device_(std::move(device)) {}

  std::vector<HealthNews> news(const DeviceHealth& health, Clock::time_point now);

 private:
  using Counts = std::map<std::string, int64_t>;  // by part
  void count(const DeviceHealth& health);
  std::optional<HealthNews> errors(const DeviceHealth& health, Clock::time_point now);
  std::optional<HealthNews> corrected_errors(Clock::time_point now);
  std::optional<HealthNews> heat(const std::string& why, Clock::time_point now);
  // Whether news of this kind may be told, which are told then.
  bool is_time(const char* kind, Clock::time_point now);

  std::string device_;
  bool is_first_ = true;
  std::map<std::string, ErrorCounts> last_;
  Counts uncorrected_, corrected_;   // that came, and were not told of yet
  std::map<int64_t, int64_t> xids_;  // likewise: how often each
  bool hot_ = false;                 // as it was told
  std::optional<Clock::time_point> hot_until_;
  std::map<std::string, Clock::time_point> told_;  // by kind
};

}  // namespace holdfast::worker
