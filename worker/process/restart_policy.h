// The pause before a training process that ended is started again.
//
// The first end after a good life is taken for an accident: the next life begins at once. After that, each short life is
// followed by a pause that doubles, until a life was long enough.
// Pure: durations come in as arguments.
#pragma once

#include <algorithm>
#include <chrono>

namespace holdfast::worker {

struct RestartLimits {
  std::chrono::milliseconds first_pause{500}, longest_pause{30'000};
  std::chrono::milliseconds good_life{60'000};
};

class RestartPolicy {
 public:
  using Milliseconds = std::chrono::milliseconds;

  explicit RestartPolicy(RestartLimits limits = {}) : limits_(limits) {}

  // The pause before the next life, after one that lasted for `life`.
  Milliseconds after(Milliseconds life) {
    if (life >= limits_.good_life) next_ = Milliseconds(0);
    const Milliseconds pause = next_;
    next_ = std::clamp(next_ * 2, limits_.first_pause, limits_.longest_pause);
    return pause;
  }

 private:
  RestartLimits limits_;
  Milliseconds next_{0};
};

}  // namespace holdfast::worker
