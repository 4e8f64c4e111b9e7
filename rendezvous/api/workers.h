// Routes of workers: they register, report, and hold a long-poll open for their directive. Users list and drain them.
//
// Thread: the owner's.
#pragma once

#include <string>

#include "rendezvous/api/turn/call.h"
#include "rendezvous/api/turn/long_polls.h"
#include "rendezvous/api/turn/turn.h"

namespace holdfast::rendezvous {

class WorkersApi {
 public:
  WorkersApi(Turn& turn, std::string service_id) : turn_(turn), service_id_(std::move(service_id)) {}

  void post_worker(Call& call);
  void post_status(Call& call);
  void get_directive(Call& call);
  void post_lost(Call& call);
  void post_worker_logs(Call& call);
  void post_progress(Call& call);
  void post_fault(Call& call);
  void post_checkpoint(Call& call);
  void post_job_event(Call& call);
  void get_nodes(Call& call);
  void post_drain(Call& call);

  // Answers the polls whose worker has another directive now, or has waited long enough. After all commands of a turn.
  void release_polls();
  void close();  // answers all polls 503

 private:
  Turn& turn_;
  const std::string service_id_;
  LongPolls polls_;
};

}  // namespace holdfast::rendezvous
