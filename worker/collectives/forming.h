// Forming a ring: connecting to the successor, while the predecessor and all others that connect are answered.
#pragma once

#include <memory>
#include <stop_token>
#include <string>

#include "worker/collectives/communicator.h"
#include "worker/collectives/handshake.h"
#include "worker/transport/transport.h"

namespace holdfast::worker {

struct RingConnections {
  std::unique_ptr<Connection> to_successor, from_predecessor;  // both have proven who they are
};

// For world sizes of 2 and more. Tries the successor again until the deadline while it is not there, or not in this
// generation yet; a final refusal ends it. Inbound connections are judged side by side, so that a silent or hostile one
// delays no other; those that fail are dropped. `stop` ends it with kAborted.
CollectiveResult<RingConnections> form_ring(Transport& transport, const RingPlace& place, const std::string& successor_address,
                                            Deadline deadline, const std::stop_token& stop);

}  // namespace holdfast::worker
