// The clocks of a thread that waits for a job's last checkpoint, and not for ever: one a step.
//
// Promises: a write under way is waited for as long as it takes. The clock of a step begins when a write of it has failed
// first, and anew when one has succeeded; it stands at its beginning while older checkpoints are removed. Other steps' writes
// do not touch it. Thread: one at a time; pure.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>

namespace holdfast::worker {

class LastWait {
 public:
  using Time = std::chrono::steady_clock::time_point;

  void write_ended(int64_t step, bool succeeded, Time now) {
    if (succeeded) {
      ended_[step] = now;
    } else {
      ended_.try_emplace(step, now);
    }
    if (ended_.size() > kStepsKept) ended_.erase(ended_.begin());
  }
  void removal(bool begins, Time now) {
    removing_ = begins;
    removed_ = now;
  }
  // A job that went back writes its steps again.
  void generation_begins() { ended_.clear(); }
  // A write of an earlier generation may have ended after that.
  void write_begins_anew(int64_t step) { ended_.erase(step); }
  bool is_over(int64_t step, std::chrono::steady_clock::duration patience, Time now) const {
    const auto found = ended_.find(step);
    return !removing_ && found != ended_.end() && now > std::max(found->second, removed_) + patience;
  }

 private:
  static constexpr size_t kStepsKept = 16;

  std::map<int64_t, Time> ended_;
  bool removing_ = false;
  Time removed_{};
};

}  // namespace holdfast::worker
