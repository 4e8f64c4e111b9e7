// How long a rank waits for its neighbours while no bytes move, and after how long it has the service ask whether they live.
// Both are learnt from the steps that it has seen.
//
// No rank needs several whole steps for its part of one step. So where steps take 0.1 s, a neighbour that has sent nothing
// for three seconds is stuck or cut off, although the job's collective_timeout_s, which must hold for any model, is far
// longer.
// Promises: never longer than the ceiling, and exactly the ceiling until a few steps are known. Each time that it ran out it
// becomes longer, so that one false alarm does not become a row of them; later it shrinks again. It lives as long as the
// worker holds the job, through generations.
// Thread: one.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>

namespace holdfast::worker {

class Patience {
 public:
  using Duration = std::chrono::milliseconds;
  static constexpr size_t kWindow = 64;   // the longest of so many steps counts
  static constexpr size_t kStepsMin = 8;  // fewer steps say nothing
  static constexpr int kSteps = 4;        // the limit is this many times the longest step, and the lease

  // `lease`: the service's, after which it takes a silent worker for gone. A shorter silence may be a hiccup.
  Patience(Duration ceiling, Duration lease) : ceiling_(ceiling), lease_(lease) {}

  void step_took(Duration duration) {
    steps_[count_++ % kWindow] = duration;
    if (count_ % kWindow == 0) factor_ = std::max(factor_ / 2, 1);
  }
  void ran_out() { factor_ = std::min(factor_ * 2, kFactorMax); }

  Duration ceiling() const { return ceiling_; }
  Duration limit() const {
    if (count_ < kStepsMin) return ceiling_;
    return std::min((lease_ + kSteps * longest()) * factor_, ceiling_);
  }
  // A question costs a message and nothing else, so it is asked early: no rank waits for another for two whole steps.
  Duration question() const {
    return count_ < kStepsMin ? std::min(lease_, ceiling_) : std::min(kHiccup + 2 * longest(), limit());
  }

 private:
  static constexpr int kFactorMax = 64;
  static constexpr Duration kHiccup{300};

  Duration longest() const {
    return *std::max_element(steps_.begin(), steps_.begin() + static_cast<std::ptrdiff_t>(std::min(count_, kWindow)));
  }

  Duration ceiling_, lease_;
  std::array<Duration, kWindow> steps_{};
  size_t count_ = 0;
  int factor_ = 1;
};

}  // namespace holdfast::worker
