// Routes that tell of the service itself: whether it lives, whether it is ready, and what its API is.
//
// Thread: the owner's, which answers /readyz: the service is ready exactly when that answer comes.
#pragma once

#include <string>

#include "rendezvous/api/turn/call.h"

namespace holdfast::rendezvous {

class Probes {
 public:
  explicit Probes(std::string service_id) : service_id_(std::move(service_id)) {}

  void get_healthz(Call& call);
  void get_readyz(Call& call);
  void get_openapi(Call& call);

 private:
  const std::string service_id_;
};

}  // namespace holdfast::rendezvous
