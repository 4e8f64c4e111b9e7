// The desk for requests of POST /v1/completions: each on its way from its bytes to the answer, whoever writes its texts.
//
// Promises: the texts of a request are a function of the model's fingerprint and the request's prompt, options and seed; a
// request without a seed gets one, and is told it. A client that goes away, or falls too far behind, is noticed within a second
// or so, whether its texts are written or wait, and they are given up. Texts are in no log, and prompts only if asked. Refuses,
// in OpenAI's form of errors: fields that are wrong or not done here (400), what `find` refuses, and more than may wait (429,
// with Retry-After). A long prompt is made tokens of by `aside`, after what is refused without its tokens. Thread: any.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <tl/expected.hpp>

#include "model/data/tokenizer.h"
#include "rendezvous/completions/completion_request.h"
#include "rendezvous/completions/desk_settings.h"
#include "rendezvous/completions/texts.h"
#include "rendezvous/http/server.h"
#include "rendezvous/text/prometheus/duration_histogram.h"
#include "rendezvous/text/prometheus/prometheus_text.h"

namespace holdfast::rendezvous {

// A model that requests are answered with.
struct AskedModel {
  std::string name, fingerprint;
  int64_t block_size = 0;
  std::shared_ptr<const model::Tokenizer> tokenizer;
  std::shared_ptr<Texts> texts;
};

class CompletionDesk {
 public:
  using Find = std::function<tl::expected<AskedModel, ApiError>(const std::string& name)>;

  // Does `work` on another thread, then `then` on the caller's, with why the work failed, or "". False: not now.
  using Then = std::function<void(const std::string& why_not)>;
  using Aside = std::function<bool(std::function<void()> work, Then then)>;

  explicit CompletionDesk(DeskSettings settings) : settings_(settings) {}

  // `aside`: null where this thread may take its time.
  void take(const HttpRequest& request, const Reply& reply, const Find& find, const Aside& aside = nullptr);
  HttpResponse refuse(const ApiError& error);
  void add_metrics(PrometheusText& text) const;

 private:
  struct Counts {
    std::atomic<int64_t> taken{0}, refused{0}, busy{0}, abandoned{0};
    DurationHistogram first_token;  // from a request to its first token
  };
  struct Ongoing;
  struct Encoded;

  void write(Encoded encoded, const AskedModel& asked, const Reply& reply);
  HttpResponse refuse(const TextRefused& refused);

  const DeskSettings settings_;
  const std::shared_ptr<Counts> counts_ = std::make_shared<Counts>();  // texts may outlive the desk
  std::atomic<uint64_t> next_id_{1};
};

}  // namespace holdfast::rendezvous
