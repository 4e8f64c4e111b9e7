// A stage's HTTP: GET /v1/stage says what it has, POST /v1/stage/pass takes a pass through its layers; /healthz.
//
// Promises: passes are done one at a time, in the order of their numbers, and each once: one that comes again gets the same
// answer. Keys and values of a stage are one driver's: the one that began last. Refuses a missing or wrong token (401), a pass
// that its decoder may not be given (400), and passes of a driver that is not the last, or that leave one out (409). Thread:
// gate() and its handlers from any; passes on one of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>

#include "model/decode/decoder.h"
#include "rendezvous/http/server.h"
#include "rendezvous/http/work_pool.h"

namespace holdfast::worker {

// The words of a stage about itself, which its driver compares with what it needs.
struct StageFacts {
  std::string fingerprint;  // of the model, as every part of it computes
  model::LayerRange layers;
  int64_t rows = 0, pages = 0;  // the most that a pass may have, and that are there
};

class StageApi {
 public:
  using OnFailure = std::function<void(const std::string& why)>;
  // The decoder outlives it, and it the HTTP server. `tokens`: SHA-256 of each in hex; none: everybody may ask. `on_failure`,
  // on the passes' thread: the decoder threw, and the pass is answered 500.
  StageApi(model::Decoder& decoder, StageFacts facts, std::set<std::string> tokens, OnFailure on_failure = nullptr);

  rendezvous::Admission gate(const rendezvous::HttpRequest& head);

 private:
  rendezvous::HttpResponse pass(const rendezvous::HttpRequest& request);  // on the pool's thread

  model::Decoder& decoder_;
  const StageFacts facts_;
  const std::set<std::string> tokens_;
  const OnFailure on_failure_;
  std::string driver_;  // the pool's thread's
  int64_t passes_ = 0;  // likewise: of that driver
  std::string answer_;  // likewise: to the last of them
  rendezvous::WorkPool pool_;
};

}  // namespace holdfast::worker
