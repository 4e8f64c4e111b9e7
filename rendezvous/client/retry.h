// When a request that failed is worth repeating, and after what pause: one rule for whoever talks to a service.
#pragma once

#include <algorithm>
#include <chrono>
#include <random>

#include "rendezvous/client/http_client.h"

namespace holdfast::rendezvous {

// Of an answer's status: the other side is busy, slow or broken for now (408, 429, 5xx), so the same request may succeed later.
// Any other answer stays what it is.
bool is_worth_repeating(int status);

// A failure is worth repeating, too, where no whole answer came and where the bytes were altered on their way. 507 (no space
// left) counts as worth repeating: a worker's reports and a webhook's delivery wait until somebody makes room. A store of
// objects (service_store.cpp) makes the one exception: whoever writes a checkpoint is told of 507 at once.
bool is_worth_repeating(const HttpFailure& failure);

// Pauses between tries: doubling up to a maximum, each by chance between half and the whole of that, so that workers do not
// come back in step.
class BackOff {
 public:
  using Milliseconds = std::chrono::milliseconds;

  BackOff(Milliseconds first, Milliseconds most) : most_(most), next_(first) {}

  Milliseconds next() {
    const auto delay = next_;
    next_ = std::min(most_, next_ * 2);
    return Milliseconds(std::uniform_int_distribution<Milliseconds::rep>(delay.count() / 2, delay.count())(random_));
  }

 private:
  Milliseconds most_, next_;
  std::minstd_rand random_{std::random_device{}()};
};

}  // namespace holdfast::rendezvous
