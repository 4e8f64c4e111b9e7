// The workers themselves: they register, report, poll, are drained, and end; and the leases, which end when a worker is silent.
//
// Messages of ended incarnations are refused and change nothing. A heartbeat without news costs the same at any number of
// workers.
// Thread: the owner.
#pragma once

#include <string>
#include <vector>

#include "rendezvous/coordinator/decisions.h"
#include "rendezvous/coordinator/directives.h"
#include "rendezvous/coordinator/journal.h"
#include "rendezvous/coordinator/planning.h"
#include "rendezvous/coordinator/refusal.h"
#include "rendezvous/coordinator/registry.h"
#include "rendezvous/coordinator/restored_database.h"
#include "rendezvous/coordinator/worker_lives.h"

namespace holdfast::rendezvous {

struct LeaseTimes {
  int64_t heartbeat_ms = 1000, lease_ms = 3000;
  int64_t grace_ms = 10000;  // the first lease after a start of the service
  // Of most of the workers at once: the silence may be this service's own, which another then replaces. 0: as any lease.
  int64_t lease_of_most_ms = 0;
};

class Workers {
 public:
  struct Parts {  // all outlive this object
    Registry& registry;
    Journal& journal;
    WorkerLives& lives;
    Decisions& decisions;
    Planning& planning;
    Directives& directives;
    RestoredDatabase& restored;
  };
  Workers(const Parts& parts, LeaseTimes times);

  OrRefusal<RegisterReply> register_worker(const RegisterRequest& request, const std::string& service_id);
  OrRefusal<StatusReply> report_status(const std::string& worker, const WorkerStatus& status, const DeviceLoad& load);
  OrRefusal<void> begin_poll(const std::string& worker, const std::string& incarnation);
  OrRefusal<void> report_lost(const WorkerLost& message);
  OrRefusal<void> drain(const std::string& worker);
  OrRefusal<void> take_logs(const std::string& worker, const LogBatch& batch);
  // Begins the worker's lease again, because a message of it came.
  void renew_lease(Worker& worker);

  void expire_leases();
  // Has the workers leave that came for a job alone which has ended.
  void release_from_ended_jobs();
  // Lengthens every lease to at least a full one from now on, because the service could not hear anybody for a while.
  void renew_all_leases();
  void forget_long_gone();

 private:
  void begin_life(Worker& worker, const RegisterRequest& request);
  void end_life(Worker& worker, Worker::Life life, const std::string& reason);
  bool most_are_silent() const;
  OrRefusal<void> welcome_back(Worker& worker);
  void take_stderr_tail(const Worker& worker, const std::vector<std::string>& lines);

  Registry& registry_;
  Journal& journal_;
  WorkerLives& lives_;
  Decisions& decisions_;
  Planning& planning_;
  Directives& directives_;
  RestoredDatabase& restored_;
  LeaseTimes times_;
  Millis looked_for_gone_ms_ = 0;
};

}  // namespace holdfast::rendezvous
