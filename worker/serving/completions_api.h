// OpenAI's API over models, each of which may be replaced by its next: POST /v1/completions, GET /v1/models; /healthz and
// /metrics; and the playground, a page at /.
//
// Promises: the texts of a request are a function of the model's fingerprint and the request's prompt, options and seed; a
// request without a seed gets one, and is told it. A client that goes away is noticed at the next pass, and its texts are given
// up. Prompts and texts are in no log. Refuses, in OpenAI's form of errors: a missing or wrong token (401), a name
// that no model has (404), fields that are wrong or not done here (400), and more than may wait (429, with Retry-After).
// Thread: gate() and its handlers from any.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "model/data/tokenizer.h"
#include "rendezvous/http/server.h"
#include "worker/serving/completion_request.h"
#include "worker/serving/served_models.h"

namespace holdfast::worker {

class CompletionsApi {
 public:
  struct Settings {
    std::chrono::milliseconds patience = std::chrono::minutes(10);  // for all texts of a request
    std::set<std::string> tokens;                                   // SHA-256 of each in hex; none: everybody may ask
  };
  // One model or several, whose names differ. They and the tokenizer, which is that of all, outlive it, and it the HTTP server.
  CompletionsApi(std::vector<const ServedModels*> models, const model::Tokenizer& tokenizer, Settings settings);

  rendezvous::Admission gate(const rendezvous::HttpRequest& head);

 private:
  struct Ongoing;
  void complete(const rendezvous::HttpRequest& request, const rendezvous::Reply& reply);
  std::shared_ptr<const ServedModel> model_named(const std::string& name) const;  // null: there is none
  rendezvous::HttpResponse models() const;
  rendezvous::HttpResponse metrics() const;
  rendezvous::HttpResponse refuse(const ApiError& error);

  const std::vector<const ServedModels*> models_;
  const model::Tokenizer& tokenizer_;
  const Settings settings_;
  struct Counts {
    std::atomic<int64_t> requests{0}, refused{0}, busy{0}, abandoned{0}, first_tokens{0}, first_token_us{0};
  } counts_;
  std::atomic<uint64_t> next_id_{1};
};

}  // namespace holdfast::worker
