// GET /metrics: the service's numbers in Prometheus' format. Jobs that have ended are left out, so the answer stays small. Not
// to be confused with /v1/jobs/{id}/metrics, a job's curves (feeds/lists.h).
//
// Thread: the owner's.
#pragma once

#include <functional>
#include <string>

#include "rendezvous/api/feeds/followers.h"
#include "rendezvous/api/scaling/scaler.h"
#include "rendezvous/api/serving/serving.h"
#include "rendezvous/api/turn/call.h"
#include "rendezvous/api/turn/turn.h"
#include "rendezvous/store/database_seen.h"

namespace holdfast::rendezvous {

class PrometheusMetrics {
 public:
  struct Leadership {
    int64_t term = 0;
    std::function<DatabaseSeen()> seen;  // may be empty
  };
  // `http_counts` may be empty.
  PrometheusMetrics(Turn& turn, const Followers& followers, const Scaler& scaler, const ServingApi& serving,
                    std::string data_dir, std::function<HttpServerCounts()> http_counts, Leadership leadership)
      : turn_(turn),
        followers_(followers),
        scaler_(scaler),
        serving_(serving),
        data_dir_(std::move(data_dir)),
        http_counts_(std::move(http_counts)),
        leadership_(std::move(leadership)) {}

  void get_prometheus(Call& call);

 private:
  Turn& turn_;
  const Followers& followers_;
  const Scaler& scaler_;
  const ServingApi& serving_;
  const std::string data_dir_;
  const std::function<HttpServerCounts()> http_counts_;
  const Leadership leadership_;
};

}  // namespace holdfast::rendezvous
