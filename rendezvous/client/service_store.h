// An object store kept by the service: PUT, GET, DELETE and GET ?prefix= below /v1/jobs/{job}/objects.
//
// Promises: a failure that may pass by itself (no connection, 408, 429, 5xx, bytes altered on the way) is tried again, with
// growing pauses, until the call's one deadline; every request can be repeated without harm. Other failures are returned at
// once: a full disk at the service (507), a damaged object at the service (422, "corrupt"). Durable means durable at the
// service, which answers a PUT or DELETE after its folder store has done it.
// Thread: any; each call takes a connection of its own.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "storage/object_store.h"
#include "storage/open_store.h"

namespace holdfast::rendezvous {

// The worker that makes the requests; the service refuses an incarnation that has ended.
struct WorkerIdentity {
  std::string worker, incarnation;
};

struct ServiceStoreOptions {
  // The longest time for a call, retries included; a put gets another second for each MB.
  std::chrono::milliseconds deadline = std::chrono::seconds(60);
  std::chrono::milliseconds first_back_off = std::chrono::milliseconds(100);  // doubles up to 5 s
  const std::atomic<bool>* stop = nullptr;   // once it is true, reads end soon; outlives the store
  std::optional<WorkerIdentity> identity{};  // sent as Holdfast-Worker and Holdfast-Incarnation
};

// The objects of one job, below /v1/jobs/{job}/objects/. `token` is a bearer token.
std::unique_ptr<storage::ObjectStore> open_service_store(const std::string& server_url, const std::string& job,
                                                         const std::string& token, const ServiceStoreOptions& options = {});

// Opens such a store for any job at this service, in the form that storage::OpenOptions::service takes.
storage::OpenServiceStore service_stores(const std::string& server_url, const std::string& token,
                                         const std::optional<WorkerIdentity>& identity = {},
                                         const std::atomic<bool>* stop = nullptr);

}  // namespace holdfast::rendezvous
