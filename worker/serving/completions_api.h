// OpenAI's API over one model: POST /v1/completions, GET /v1/models; and /healthz and /metrics.
//
// Promises: the texts of a request are a function of the model's fingerprint and the request's prompt, options and seed; a
// request without a seed gets one, and is told it. A client that goes away is noticed at the next pass, and its texts are given
// up. Prompts and texts are in no log. Refuses, in OpenAI's form of errors: a missing or wrong token (401), another model's
// name (404), fields that are wrong or not done here (400), and more than may wait (429, with Retry-After). Thread: gate() and
// its handlers from any.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "model/data/tokenizer.h"
#include "model/parameter_table.h"
#include "rendezvous/http/server.h"
#include "worker/serving/completion_request.h"
#include "worker/serving/text_server.h"

namespace holdfast::worker {

struct ServedModel {
  std::string name, fingerprint;
  model::Gpt2Config config;
  int64_t created_s = 0;
};

class CompletionsApi {
 public:
  struct Settings {
    std::chrono::milliseconds patience = std::chrono::minutes(10);  // for all texts of a request
    std::set<std::string> tokens;                                   // SHA-256 of each in hex; none: everybody may ask
  };
  // The server and the tokenizer outlive it, and it the HTTP server.
  CompletionsApi(TextServer& texts, const model::Tokenizer& tokenizer, ServedModel served, Settings settings);

  rendezvous::Admission gate(const rendezvous::HttpRequest& head);

 private:
  struct Ongoing;
  void complete(const rendezvous::HttpRequest& request, const rendezvous::Reply& reply);
  rendezvous::HttpResponse models() const;
  rendezvous::HttpResponse metrics() const;
  rendezvous::HttpResponse refuse(const ApiError& error);

  TextServer& texts_;
  const model::Tokenizer& tokenizer_;
  const ServedModel served_;
  const Settings settings_;
  struct Counts {
    std::atomic<int64_t> requests{0}, refused{0}, busy{0}, abandoned{0}, first_tokens{0}, first_token_us{0};
  } counts_;
  std::atomic<uint64_t> next_id_{1};
};

}  // namespace holdfast::worker
