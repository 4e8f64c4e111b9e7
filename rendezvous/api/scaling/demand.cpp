#include "rendezvous/api/scaling/demand.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace holdfast::rendezvous {
namespace {

using Json = nlohmann::json;

bool is_idle(const Worker& worker) {
  return worker.life == Worker::Life::kAlive && worker.spoke && !worker.leaving() && worker.job.empty() &&
         worker.has_no_job() && worker.registration.only_job.empty();
}

bool lacks_workers(const Job& job, Millis now_ms) {
  return job.shortage && job.lacks_since_ms && now_ms - *job.lacks_since_ms >= DemandWatch::kLacksFor;
}

int64_t missing_of(const Shortage& shortage) {
  return std::max<int64_t>(0, shortage.needed - shortage.there - shortage.on_the_way);
}

double in_seconds(Millis ms) {
  return static_cast<double>(ms) / 1000;
}

}  // namespace

void DemandWatch::look(const Coordinator& state, Millis now_ms) {
  std::map<std::string, Millis> idle;
  for (const auto& [name, worker] : state.workers()) {
    const std::string& incarnation = worker.registration.incarnation;
    if (!is_idle(worker)) continue;
    const auto known = idle_since_.find(incarnation);
    idle.emplace(incarnation, known == idle_since_.end() ? now_ms : known->second);
  }
  idle_since_ = std::move(idle);
}

Demand DemandWatch::demand(const Coordinator& state, Millis now_ms, Millis idle_ms) const {
  Demand demand;
  for (const auto& [number, job] : state.jobs()) {
    if (lacks_workers(*job, now_ms)) demand.missing += missing_of(*job->shortage);
  }
  for (const auto& [name, worker] : state.workers()) {
    const auto since = idle_since_.find(worker.registration.incarnation);
    if (since != idle_since_.end() && now_ms - since->second >= idle_ms) demand.idle.push_back(name);
  }
  return demand;
}

Json DemandWatch::in_full(const Coordinator& state, Millis now_ms, Millis idle_ms) const {
  const Demand all = demand(state, now_ms, idle_ms);
  Json json = {
      {"missing_workers", all.missing}, {"idle_workers", all.idle.size()}, {"jobs", Json::array()}, {"workers", Json::array()}};
  for (const auto& [number, job] : state.jobs()) {
    if (!lacks_workers(*job, now_ms)) continue;
    const JobMembership& m = job->membership;
    json["jobs"].push_back({{"id", job->id},
                            {"name", m.spec.name},
                            {"priority", m.spec.priority},
                            {"needed", job->shortage->needed},
                            {"there", job->shortage->there},
                            {"missing", missing_of(*job->shortage)},
                            {"nodes", m.nodes},
                            {"max_nodes", m.max_nodes},
                            {"requires", m.spec.requirements},
                            {"waits_s", in_seconds(now_ms - *job->lacks_since_ms)}});
  }
  for (const std::string& name : all.idle) {
    const RegisterRequest& r = state.workers().at(name).registration;
    json["workers"].push_back({{"id", r.name},
                               {"node", r.node},
                               {"device", r.device},
                               {"labels", r.labels},
                               {"idle_s", in_seconds(now_ms - idle_since_.at(r.incarnation))}});
  }
  return json;
}

}  // namespace holdfast::rendezvous
