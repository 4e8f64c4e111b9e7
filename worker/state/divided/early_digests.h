// The chunks that a rank owns are digested as the last step of a generation ends: ranks tell the digests to each other before
// they go on (agreement.h). A chunk is final once the step is applied, while compute copies still travel, and is digested then,
// beside the network, by a thread of its own.
#pragma once

#include <thread>

#include "worker/session/session.h"

namespace holdfast::worker {

// Where the device's memory is the host's; elsewhere it does nothing.
class EarlyDigests {
 public:
  // Begins. While this lives nobody writes to what this rank owns.
  explicit EarlyDigests(Session& session);
  // Waits; `session.digested` has them then.
  ~EarlyDigests() = default;

 private:
  std::jthread thread_;
};

}  // namespace holdfast::worker
