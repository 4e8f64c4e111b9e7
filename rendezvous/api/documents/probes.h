// Routes that tell of the service itself: whether it lives, whether it is ready, what its API is, and which others there are.
//
// Thread: the owner's, which answers /readyz: the service is ready exactly when that answer comes.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "rendezvous/api/turn/call.h"
#include "rendezvous/store/database_seen.h"

namespace holdfast::rendezvous {

class Probes {
 public:
  struct Self {
    std::string id, address;
    int64_t term = 0;                             // 0: there are no others
    std::function<DatabaseSeen()> database_seen;  // may be empty
  };
  explicit Probes(Self self) : self_(std::move(self)) {}

  void get_healthz(Call& call);
  void get_readyz(Call& call);
  void get_openapi(Call& call);
  void get_services(Call& call);

 private:
  const Self self_;
};

}  // namespace holdfast::rendezvous
