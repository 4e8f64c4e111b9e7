// The rule for failed requests: which are worth repeating, and after which pause. All clients of the service use it.
#pragma once

#include <algorithm>
#include <chrono>
#include <random>

#include "rendezvous/client/http_client.h"

namespace holdfast::rendezvous {

// By the status of an answer: with 408, 429 and 5xx the other side is busy, slow or broken for now, and the same request may
// succeed later. With any other status it would get the same answer again.
bool is_worth_repeating(int status);

// Adds two cases: no whole answer came, or bytes were altered on their way. 507 (no space left) is worth repeating: a worker's
// reports and a webhook's delivery wait until somebody makes room. There is one exception, in service_store.cpp: the writer of
// a checkpoint gets the 507 at once.
bool is_worth_repeating(const HttpFailure& failure);

// Pauses between tries. A bound doubles from `first` up to `most`; each pause is random between half the bound and the whole
// bound, so that workers do not come back at the same moment.
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
