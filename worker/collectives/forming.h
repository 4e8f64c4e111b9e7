// Forming a ring: connecting to the successor while the predecessor, and whoever else knocks, is answered.
#pragma once

#include <memory>
#include <stop_token>
#include <string>

#include "worker/collectives/communicator.h"
#include "worker/collectives/handshake.h"
#include "worker/transport.h"

namespace holdfast::worker {

struct RingConnections {
  std::unique_ptr<Connection> to_successor, from_predecessor;  // both have proven who they are
};

// World sizes of 2 and more. Tries the successor again until the deadline while it is not there, or not in this generation
// yet; a refusal for good ends it. Inbound connections are judged side by side, so that a silent or hostile one delays
// nobody; those that fail are dropped. `stop` ends it with kAborted.
CollectiveResult<RingConnections> form_ring(Transport& transport, const RingPlace& place, const std::string& successor_address,
                                            Deadline deadline, const std::stop_token& stop);

}  // namespace holdfast::worker
