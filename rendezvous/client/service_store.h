// Objects kept by the service: PUT, GET, DELETE and GET ?prefix= below /v1/jobs/{job}/objects.
//
// Promises: what may pass by itself (no connection, 408, 429, 5xx, bytes altered on the way) is tried again with growing pauses
// until the call's one deadline; every request can be repeated without harm. What does not pass by itself is said at once: a
// full disk there (507), an object that cannot be read back there (422, "corrupt"). Durable means durable at the service, which
// answers a PUT or DELETE after its folder store did.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "storage/object_store.h"
#include "storage/open_store.h"

namespace holdfast::rendezvous {

// The worker that asks: the service refuses requests of an incarnation that is over.
struct WorkerIdentity {
  std::string worker, incarnation;
};

struct ServiceStoreOptions {
  // A call ends by this, retries included; a put is given another second for each MB.
  std::chrono::milliseconds deadline = std::chrono::seconds(60);
  std::chrono::milliseconds first_back_off = std::chrono::milliseconds(100);  // doubles up to 5 s
  const std::atomic<bool>* stop = nullptr;                                    // once true, reads end soon; outlives the store
  std::optional<WorkerIdentity> identity{};  // sent as Holdfast-Worker and Holdfast-Incarnation
};

// Objects kept by the service, below /v1/jobs/{job}/objects/. `token` is a bearer token.
std::unique_ptr<storage::ObjectStore> open_service_store(const std::string& server_url, const std::string& job,
                                                         const std::string& token, const ServiceStoreOptions& options = {});

// The same as storage::OpenOptions::service takes it: of any job, at this service.
storage::OpenServiceStore service_stores(const std::string& server_url, const std::string& token,
                                         const std::optional<WorkerIdentity>& identity = {},
                                         const std::atomic<bool>* stop = nullptr);

}  // namespace holdfast::rendezvous
