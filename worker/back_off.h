// How long to wait before the next try: doubling up to a maximum, with jitter so that workers do not come back in step.
#pragma once

#include <algorithm>
#include <chrono>
#include <random>

namespace holdfast::worker {

class BackOff {
 public:
  using Milliseconds = std::chrono::milliseconds;

  BackOff(Milliseconds first, Milliseconds most) : most_(most), next_(first) {}

  // Between half and the whole of the present delay.
  Milliseconds next() {
    const auto delay = next_;
    next_ = std::min(most_, next_ * 2);
    return Milliseconds(std::uniform_int_distribution<Milliseconds::rep>(delay.count() / 2, delay.count())(random_));
  }

 private:
  Milliseconds most_, next_;
  std::minstd_rand random_{std::random_device{}()};
};

}  // namespace holdfast::worker
