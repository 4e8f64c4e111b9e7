// OpenAI's API over models, each of which may be replaced by its next: POST /v1/completions, GET /v1/models; /healthz and
// /metrics; and the playground, a page at /.
//
// Requests for texts are the desk's (rendezvous/completions/desk.h). Refuses beside what that does, in OpenAI's form of errors:
// a missing or wrong token (401), and a name that no model has (404). Thread: gate() and its handlers from any.
#pragma once

#include <chrono>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "model/data/tokenizer.h"
#include "rendezvous/completions/desk.h"
#include "rendezvous/http/server.h"
#include "worker/serving/served_models.h"

namespace holdfast::worker {

class CompletionsApi {
 public:
  struct Settings {
    rendezvous::DeskSettings texts = {};
    std::set<std::string> tokens;  // SHA-256 of each in hex; none: everybody may ask
  };
  // One model or several, whose names differ. They and the tokenizer, which is that of all, outlive it, and it the HTTP server.
  CompletionsApi(std::vector<const ServedModels*> models, const model::Tokenizer& tokenizer, Settings settings);

  rendezvous::Admission gate(const rendezvous::HttpRequest& head);

 private:
  tl::expected<rendezvous::AskedModel, rendezvous::ApiError> find(const std::string& name) const;
  rendezvous::HttpResponse models() const;
  rendezvous::HttpResponse metrics() const;

  const std::vector<const ServedModels*> models_;
  const model::Tokenizer& tokenizer_;
  const Settings settings_;
  rendezvous::CompletionDesk desk_;
};

}  // namespace holdfast::worker
