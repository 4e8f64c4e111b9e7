#include "worker/load/health_watch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace holdfast::worker {
namespace {

// NVIDIA's numbers (its catalogue: XID Errors) of the hardware's own faults. Others may be a program's as well.
constexpr int64_t kXidsOfHardware[] = {48, 63, 64, 74, 79, 92, 94, 95, 119, 120, 140};

// "3 of umc, 1 of sdma".
std::string in_words(const std::map<std::string, int64_t>& counts) {
  std::vector<std::string> words;
  for (const auto& [part, count] : counts) words.push_back(fmt::format("{} of {}", count, part));
  return fmt::format("{}", fmt::join(words, ", "));
}

// "79, 13 (4 times)".
std::string in_words(const std::map<int64_t, int64_t>& xids) {
  std::vector<std::string> words;
  for (const auto& [xid, times] : xids)
    words.push_back(times == 1 ? fmt::format("{}", xid) : fmt::format("{} ({} times)", xid, times));
  return fmt::format("{}", fmt::join(words, ", "));
}

bool speaks_of_hardware(const std::map<int64_t, int64_t>& xids) {
  return std::ranges::any_of(
      xids, [](const auto& xid) { return std::ranges::find(kXidsOfHardware, xid.first) != std::end(kXidsOfHardware); });
}

}  // namespace

bool HealthWatch::is_time(const char* kind, Clock::time_point now) {
  const auto found = told_.find(kind);
  if (found != told_.end() && now - found->second < kQuiet) return false;
  told_[kind] = now;
  return true;
}

// A part that this reading has not keeps its counts: its file could not be read.
void HealthWatch::count(const DeviceHealth& health) {
  for (const auto& [part, counts] : health.errors) {
    const auto found = last_.find(part);
    const ErrorCounts before = found != last_.end() ? found->second : ErrorCounts{0, counts.corrected};
    const auto grown = [](int64_t now, int64_t then) { return now < then ? now : now - then; };
    if (const int64_t more = grown(counts.uncorrected, before.uncorrected); more > 0) uncorrected_[part] += more;
    if (const int64_t more = grown(counts.corrected, before.corrected); more > 0) corrected_[part] += more;
    last_[part] = counts;
  }
  for (const int64_t xid : health.xids) ++xids_[xid];
}

std::optional<HealthNews> HealthWatch::errors(const DeviceHealth& health, Clock::time_point now) {
  if (uncorrected_.empty() && xids_.empty()) return std::nullopt;
  if (!is_time("gpu_errors", now)) return std::nullopt;
  std::string text = device_ + ": ";
  if (!uncorrected_.empty()) {
    Counts in_all;
    for (const auto& [part, counts] : health.errors) {
      if (counts.uncorrected > 0) in_all[part] = counts.uncorrected;
    }
    text += is_first_ ? fmt::format("errors that could not be corrected, before this process began: {}", in_words(uncorrected_))
                      : fmt::format("errors that could not be corrected: {} (since the driver was loaded: {})",
                                    in_words(uncorrected_), in_words(in_all));
  }
  if (!xids_.empty()) text += fmt::format("{}Xid {} of its driver", uncorrected_.empty() ? "" : "; ", in_words(xids_));
  text += !uncorrected_.empty() || speaks_of_hardware(xids_)
              ? ": drain this worker, reset the GPU or start the machine again, and test or replace the GPU if they come back"
              : ": NVIDIA's catalogue of Xids says whether that is a program's fault; drain this worker if it comes back";
  uncorrected_.clear();
  xids_.clear();
  return HealthNews{"gpu_errors", std::move(text)};
}

std::optional<HealthNews> HealthWatch::corrected_errors(Clock::time_point now) {
  if (corrected_.empty() || !is_time("gpu_corrected_errors", now)) return std::nullopt;
  std::string text = fmt::format("{}: errors that were corrected: {}: nothing is wrong yet; test the GPU if they go on",
                                 device_, in_words(corrected_));
  corrected_.clear();
  return HealthNews{"gpu_corrected_errors", std::move(text)};
}

std::optional<HealthNews> HealthWatch::heat(const std::string& why, Clock::time_point now) {
  if (!why.empty()) {
    hot_until_ = now;
    if (hot_ || !is_time("gpu_hot", now)) return std::nullopt;
    hot_ = true;
    return HealthNews{"gpu_hot",
                      fmt::format("{}: heat holds its clocks down ({}), so its steps are slower: look at its fans, its "
                                  "dust and the air of the room, or lower its power limit",
                                  device_, why)};
  }
  if (!hot_ || now - *hot_until_ < kCoolFor) return std::nullopt;
  hot_ = false;
  return HealthNews{"gpu_cool", fmt::format("{}: heat does not hold its clocks down any more", device_)};
}

std::vector<HealthNews> HealthWatch::news(const DeviceHealth& health, Clock::time_point now) {
  count(health);
  std::vector<HealthNews> told;
  for (auto& one : {errors(health, now), corrected_errors(now), heat(health.hot, now)}) {
    if (one) told.push_back(*one);
  }
  is_first_ = false;
  return told;
}

}  // namespace holdfast::worker
