// A database that several services share, as the one that leads sees it: who else is connected, and which copies its server
// has.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace holdfast::rendezvous {

struct ConnectedService {
  std::string id, address;  // of its process; where others reach it, at most what its connection's name has room for
  bool operator==(const ConnectedService&) const = default;
};

struct DatabaseSeen {
  std::vector<ConnectedService> services;  // by address
  int64_t replicas = 0, synchronous = 0;   // servers that follow this one now; of them, those that each commit waits for
  // The replica furthest behind has replayed what was written so long ago; none: not known, as to a user without pg_monitor, or
  // nobody is behind.
  std::optional<double> lag_s;
};

}  // namespace holdfast::rendezvous
