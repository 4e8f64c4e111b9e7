#include "rendezvous/api/documents/probes.h"

#include "rendezvous/api/answers/answers.h"
#include "rendezvous/api/openapi/openapi.h"

namespace holdfast::rendezvous {

void Probes::get_healthz(Call& call) {
  call.answer(json_answer(200, {{"status", "ok"}, {"version", kHoldfastVersion}}));
}

void Probes::get_readyz(Call& call) {
  call.answer(json_answer(200, {{"status", "ready"}, {"service_id", self_.id}}));
}

// Other services are seen by their connections to the database: one whose connection is new may not be among them yet.
void Probes::get_services(Call& call) {
  DatabaseSeen seen = self_.database_seen ? self_.database_seen() : DatabaseSeen{};
  std::erase_if(seen.services, [this](const ConnectedService& service) { return service.id == self_.id; });
  nlohmann::json list = {{{"id", self_.id}, {"address", self_.address}, {"leads", true}}};
  for (const ConnectedService& service : seen.services)
    list.push_back({{"id", service.id}, {"address", service.address}, {"leads", false}});
  call.answer(json_answer(200, {{"services", std::move(list)},
                                {"term", self_.term > 0 ? nlohmann::json(self_.term) : nlohmann::json(nullptr)},
                                {"replicas", seen.replicas},
                                {"synchronous_replicas", seen.synchronous}}));
}

void Probes::get_openapi(Call& call) {
  HttpResponse response;
  response.body = openapi_document();
  call.answer(std::move(response));
}

}  // namespace holdfast::rendezvous
