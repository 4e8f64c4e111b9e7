// The service: HTTP requests in, replies out; one thread owns all state.
//
// Promises: what an answer says is committed before the answer leaves (all commands of one turn share one transaction).
// Long-polls are answered in the turn in which their directive changes; those of other workers are not looked at. Every error
// is a problem (RFC 9457). Checkpoint objects are read and written on threads of their own. Refuses: requests without a valid
// token whose role allows it, but for /healthz, /readyz and the page's files. When the database cannot be written it answers
// 503 and stops, because what it knows is then ahead of what it could promise: service_lives.h begins the next. Thread:
// handle(), admit(), stop() and failure() from any; run() or turn() from one, the owner.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/clock.h"
#include "rendezvous/coordinator.h"
#include "rendezvous/http_server.h"
#include "rendezvous/job_store.h"

namespace holdfast::rendezvous {

struct ServiceOptions {
  std::string data_dir;  // checkpoints are kept below it
  std::string service_id;
  std::string admin_token, worker_token;
  LeaseTimes times;
  int object_threads = 2;
  std::function<HttpServerCounts()> http_counts = {};  // for /metrics; may be empty
  std::vector<std::string> checkpoint_roots = {};      // where `resume_from PATH` may lead; none: anywhere
  double requests_per_s = 500;                         // of each token, on average; workers' have no such limit. 0: none
};

struct ServiceFailure {
  std::string why;
  bool of_store = false;  // its database could not be read or written; false: something is wrong with the service itself
};

class Service {
 public:
  // Loads what the store has, and removes objects that were left unfinished: not to be reachable before. `clock` and `store`
  // outlive it. Throws StoreError.
  Service(ServiceOptions options, const Clock& clock, JobStore& store, std::function<std::string()> new_secret);
  ~Service();
  Service(const Service&) = delete;

  void handle(HttpRequest request, Reply reply);
  // Refuses a request that will not be carried out whatever its body says: unknown place, no valid token.
  Admission admit(const HttpRequest& request);

  // What there is, for what describes it: "/v1/jobs/{}".
  struct RouteSummary {
    std::string method, path;
    std::vector<std::string> roles;  // that may go there; none: no token is needed
  };
  static std::vector<RouteSummary> routes();

  void run();   // turns until stop()
  void stop();  // every open request is answered 503
  // One turn: all commands that wait, then time's own doing, then one commit, then the answers. For run(), and for tests.
  void turn();
  std::optional<ServiceFailure> failure() const;  // it has stopped by itself
  const CoordinatorWork& work() const;            // of the owner's thread

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace holdfast::rendezvous
