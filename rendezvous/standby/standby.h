// All that a service does while another one leads: it answers questions from the database, and pulls what the leader keeps in
// its own folder.
//
// Thread: admit() and write() from any; end_pull() from the one that made it.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "rendezvous/coordinator/clock.h"
#include "rendezvous/http/server.h"
#include "rendezvous/standby/checkpoint_pull.h"
#include "rendezvous/standby/reads.h"
#include "rendezvous/store/reading.h"
#include "rendezvous/text/prometheus/prometheus_text.h"

namespace holdfast::rendezvous {

struct StandbyOptions {
  ReadsOptions reads;
  std::optional<PullOptions> pull;  // none: services see one folder
};

class Standby {
 public:
  using Open = std::function<std::unique_ptr<StoreReading>()>;

  // `clock` outlives it.
  Standby(StandbyOptions options, const Clock& clock, Open open);

  std::optional<Admission> admit(const HttpRequest& head) { return reads_.admit(head); }
  void write(PrometheusText& text) const;  // for /metrics
  void end_pull();                         // before this service leads: then the folder is its own

 private:
  StandbyReads reads_;
  std::unique_ptr<CheckpointPull> pull_;
};

}  // namespace holdfast::rendezvous
