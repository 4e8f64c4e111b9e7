#include "rendezvous/api/documents/probes.h"

#include "rendezvous/api/answers/answers.h"
#include "rendezvous/api/openapi/openapi.h"

namespace holdfast::rendezvous {

void Probes::get_healthz(Call& call) {
  call.answer(json_answer(200, {{"status", "ok"}, {"version", kHoldfastVersion}}));
}

void Probes::get_readyz(Call& call) {
  call.answer(json_answer(200, {{"status", "ready"}, {"service_id", service_id_}}));
}

void Probes::get_openapi(Call& call) {
  HttpResponse response;
  response.body = openapi_document();
  call.answer(std::move(response));
}

}  // namespace holdfast::rendezvous
