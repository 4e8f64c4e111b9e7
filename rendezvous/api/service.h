// The service: HTTP requests in, replies out; one thread owns all state.
//
// Promises: an answer leaves after the commit of everything that it tells (all commands of one turn share one transaction). A
// long-poll is answered in the turn in which its worker's directive changes, and costs nothing in other turns. Every error is a
// problem (RFC 9457). Checkpoint objects and data chunks are read and written on threads of their own.
// Refuses: requests without a valid token whose role allows them, except /healthz, /readyz and the page's files. When the
// database cannot be written, the service answers 503 and stops, because its memory is then ahead of the database;
// service_lives.h begins the next one.
// Thread: admit(), stop() and failure() from any; run() or turn() from one, the owner.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/api/scaling/scaler.h"
#include "rendezvous/api/turn/failure.h"
#include "rendezvous/completions/desk_settings.h"
#include "rendezvous/coordinator/clock.h"
#include "rendezvous/coordinator/coordinator.h"
#include "rendezvous/http/server.h"
#include "rendezvous/store/database_seen.h"
#include "rendezvous/store/job_store.h"

namespace holdfast::rendezvous {

struct ServiceOptions {
  std::string data_dir;  // checkpoints and data sets are kept below it
  std::string service_id;
  std::string admin_token, worker_token;
  LeaseTimes times;
  int object_threads = 2;
  std::function<HttpServerCounts()> http_counts = {};  // for /metrics; may be empty
  std::vector<std::string> checkpoint_roots = {};      // where `resume_from PATH` may lead; none: anywhere
  double requests_per_s = 500;                         // of each token, on average; workers' have no such limit. 0: none
  int64_t data_limit_bytes = 0;                        // of data sets' chunks; 0: the disk's
  int64_t term = 0;            // of this service's leadership among several with one database; 0: it is the only one
  bool may_lack_some = false;  // the database, of what was acknowledged: as after a restore from a copy
  std::function<DatabaseSeen()> database_seen = {};  // which several services share; may be empty
  bool has_own_folder = false;                       // among several: what others kept for jobs may not be here
  std::string address = {};                          // where others reach this service
  ScaleHook scale_hook = {};                         // called when workers are wanted, or are not
  bool in_plain = false;                             // other machines reach it without TLS
  DeskSettings texts = {};                           // for requests that jobs' replicas answer
};

class Service {
 public:
  // Loads everything from the store, and removes objects that were left unfinished: nobody must reach the service before it is
  // made. `clock` and `store` outlive it. Throws StoreError.
  Service(ServiceOptions options, const Clock& clock, JobStore& store, std::function<std::string()> new_secret);
  ~Service();
  Service(const Service&) = delete;

  // Looks at a request's head: the route, the token. Refuses what no body could make right: an unknown place, no valid token.
  // Else the admission's handler puts the whole request into the owner's queue; it must not be called after the service ended.
  Admission admit(const HttpRequest& head);

  // The routes as data, for tests that compare them with openapi.json.
  struct RouteSummary {
    std::string method, path;        // "/v1/jobs/{}"
    std::vector<std::string> roles;  // that may go there; none: no token is needed
  };
  static std::vector<RouteSummary> routes();

  void run();   // turns until stop()
  void stop();  // every open request is answered 503
  // One turn: all waiting commands, then everything that is due by time alone, one commit, then the answers. For run(), and for
  // tests.
  void turn();
  std::optional<ServiceFailure> failure() const;  // set when it has stopped by itself
  CoordinatorWork work() const;                   // counters for tests; on the owner's thread

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace holdfast::rendezvous
