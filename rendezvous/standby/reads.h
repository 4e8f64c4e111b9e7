// The answers of a service that stands by: questions about jobs and workers, from the database that another service writes.
//
// Promises: nothing is written. An answer is of one moment of the database, which its header Holdfast-As-Of names;
// Holdfast-Term is the term that the database was in then, Holdfast-Leader the address of the service that leads. The database
// is looked at when somebody asks, and the state is loaded anew only where it has changed, at most once a second and so seldom
// that loading takes a tenth of the time. A token that was revoked is refused from the next loading on. Refuses, with nothing,
// so that the caller answers not_leader: requests that change something, streams, and places whose answers live in the leader's
// memory or folder. Thread: admit() from any; the answers are made on a thread of its own.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/coordinator/clock.h"
#include "rendezvous/http/server.h"
#include "rendezvous/store/reading.h"

namespace holdfast::rendezvous {

struct ReadsOptions {
  std::string service_id, admin_token, worker_token;
  double requests_per_s = 500;  // of each token; 0: no limit
  int64_t fresh_ms = 1000;      // the state is not loaded anew so soon after the last time
};

class StandbyReads {
 public:
  // Opens the database: called again after it was lost. May throw StoreError.
  using Open = std::function<std::unique_ptr<StoreReading>()>;

  // `clock` outlives it.
  StandbyReads(ReadsOptions options, const Clock& clock, Open open);
  ~StandbyReads();  // requests that wait are answered 503
  StandbyReads(const StandbyReads&) = delete;

  // None: the service that leads is to be asked.
  std::optional<Admission> admit(const HttpRequest& head);

  // The routes that are answered here, as "GET /v1/jobs/{}": openapi.json names the same.
  static std::vector<std::string> routes();

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace holdfast::rendezvous
