// GET /metrics: the service's numbers in Prometheus' format. Jobs that have ended are left out, so the answer stays small. Not
// to be confused with /v1/jobs/{id}/metrics, a job's curves (feeds/lists.h).
//
// Thread: the owner's.
#pragma once

#include <functional>
#include <string>

#include "rendezvous/api/feeds/followers.h"
#include "rendezvous/api/turn/call.h"
#include "rendezvous/api/turn/turn.h"

namespace holdfast::rendezvous {

class PrometheusMetrics {
 public:
  // `http_counts` may be empty.
  PrometheusMetrics(Turn& turn, const Followers& followers, std::string data_dir, std::function<HttpServerCounts()> http_counts)
      : turn_(turn), followers_(followers), data_dir_(std::move(data_dir)), http_counts_(std::move(http_counts)) {}

  void get_prometheus(Call& call);

 private:
  Turn& turn_;
  const Followers& followers_;
  const std::string data_dir_;
  const std::function<HttpServerCounts()> http_counts_;
};

}  // namespace holdfast::rendezvous
