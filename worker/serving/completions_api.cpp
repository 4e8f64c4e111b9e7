#include "worker/serving/completions_api.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <mutex>
#include <random>
#include <utility>

#include "rendezvous/http/bearer_token.h"
#include "rendezvous/text/prometheus_text.h"
#include "rendezvous/text/random_hex.h"
#include "rendezvous/text/sha256.h"
#include "worker/serving/completion.h"
#include "worker/serving/playground_files.h"

namespace holdfast::worker {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;
using rendezvous::Admission;
using rendezvous::HttpRequest;
using rendezvous::HttpResponse;

std::string text_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

double seconds(Clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

Admission answered_by(HttpResponse response) {
  return {.refusal = std::nullopt,
          .known = true,
          .handler = [response = std::move(response)](const HttpRequest&, const rendezvous::Reply& reply) { reply(response); }};
}

// Of the playground; null: the path is none of its files.
const rendezvous::StaticFile* page_file(const HttpRequest& head) {
  constexpr std::string_view kFolder = "/page/";
  if (head.method != "GET" && head.method != "HEAD") return nullptr;
  if (head.path == "/") return find_playground_file("index.html");
  return head.path.starts_with(kFolder) ? find_playground_file(std::string_view(head.path).substr(kFolder.size())) : nullptr;
}

}  // namespace

// A request whose texts are being written. The engine's thread and the connection's meet here.
struct CompletionsApi::Ongoing {
  Ongoing(std::string its_id, Completion its_completion, Counts& its_counts)
      : id(std::move(its_id)), completion(std::move(its_completion)), counts(its_counts) {}

  const std::string id;
  std::mutex mutex;  // guards what follows
  Completion completion;
  Counts& counts;
  std::shared_ptr<rendezvous::EventStream> stream;
  std::string unsent;  // before there is a stream
  bool is_gone = false, is_done = false;
  const Clock::time_point begun = Clock::now();
  std::optional<Clock::time_point> first;

  bool progress(size_t index, const std::vector<model::WrittenToken>& tokens, TextServer::Outcome outcome) {
    const std::lock_guard lock(mutex);
    if (stream != nullptr && !stream->write("")) is_gone = true;
    if (is_gone) {
      give_up();
      return false;
    }
    if (!first && !tokens.empty() && !tokens.back().of_prompt) {
      first = Clock::now();
      ++counts.first_tokens;
      counts.first_token_us += std::chrono::duration_cast<std::chrono::microseconds>(*first - begun).count();
    }
    std::string bytes;
    const bool goes_on = completion.add(index, tokens, outcome, bytes);
    if (completion.has_ended()) {
      bytes += completion.request().stream ? completion.last_events() : text_of(completion.answer());
      is_done = true;
      spdlog::info("{}: {} texts, {} + {} tokens, the first after {:.3f} s, all after {:.3f} s", id, completion.texts(),
                   completion.prompt_tokens(), completion.written_tokens(), first ? seconds(*first - begun) : 0.0,
                   seconds(Clock::now() - begun));
    }
    send(std::move(bytes));
    return goes_on;
  }

  void begin_stream(std::shared_ptr<rendezvous::EventStream> its_stream) {
    const std::lock_guard lock(mutex);
    stream = std::move(its_stream);
    send(std::exchange(unsent, {}));
  }
  void lose() {
    const std::lock_guard lock(mutex);
    is_gone = is_gone || !is_done;
  }

 private:
  void send(std::string bytes) {
    if (stream == nullptr) {
      unsent += bytes;
      return;
    }
    if (!stream->write(bytes)) is_gone = true;
    if (is_done) stream->close();
  }
  void give_up() {
    if (std::exchange(is_done, true)) return;
    ++counts.abandoned;
    spdlog::info("{}: the client has gone after {} tokens", id, completion.written_tokens());
  }
};

CompletionsApi::CompletionsApi(std::vector<const ServedModels*> models, const model::Tokenizer& tokenizer, Settings settings)
    : models_(std::move(models)), tokenizer_(tokenizer), settings_(std::move(settings)) {}

std::shared_ptr<const ServedModel> CompletionsApi::model_named(const std::string& name) const {
  for (const ServedModels* models : models_) {
    if (auto now = models->now(); now->name == name) return now;
  }
  return nullptr;
}

HttpResponse CompletionsApi::refuse(const ApiError& error) {
  ++(error.status == 429 ? counts_.busy : counts_.refused);
  HttpResponse response{.status = error.status, .body = text_of(json_of(error))};
  if (error.status == 429) response.headers["Retry-After"] = "1";
  if (error.status == 401) response.headers["WWW-Authenticate"] = "Bearer";
  return response;
}

Admission CompletionsApi::gate(const HttpRequest& head) {
  const auto refusal = [&](const ApiError& error) { return Admission{.refusal = refuse(error)}; };
  if (head.path == "/healthz") return answered_by({.body = "ok\n", .content_type = "text/plain"});
  if (const rendezvous::StaticFile* file = page_file(head)) return answered_by(answer_with(*file, head));
  if (!settings_.tokens.empty()) {
    const std::string token = rendezvous::bearer_token(head);
    if (token.empty() || !settings_.tokens.contains(rendezvous::sha256_hex(std::as_bytes(std::span(token))))) {
      return refusal(
          {.status = 401,
           .type = "authentication_error",
           .message = token.empty() ? "send `Authorization: Bearer TOKEN`" : "this token is not one of this server's",
           .code = "invalid_api_key"});
    }
  }
  if (head.path == "/metrics" && head.method == "GET") return answered_by(metrics());
  if (head.path == "/v1/models" && head.method == "GET") return answered_by(models());
  if (head.path == "/v1/completions") {
    if (head.method != "POST") return refusal({.status = 405, .message = head.path + ": POST a request"});
    return {.refusal = std::nullopt,
            .known = true,
            .handler = [this](const HttpRequest& request, const rendezvous::Reply& reply) { complete(request, reply); }};
  }
  return refusal(
      {.status = 404,
       .message = fmt::format("{} {}: no such route; there are POST /v1/completions, GET /v1/models, /metrics, /healthz and /",
                              head.method, head.path),
       .code = "not_found"});
}

void CompletionsApi::complete(const HttpRequest& request, const rendezvous::Reply& reply) {
  ++counts_.requests;
  auto order = read_completion_request(request.body);
  if (!order) return reply(refuse(order.error()));
  const std::shared_ptr<const ServedModel> served = model_named(order->model);
  if (served == nullptr) {
    std::string names;
    for (const ServedModels* models : models_) names += fmt::format("{}\"{}\"", names.empty() ? "" : ", ", models->now()->name);
    return reply(refuse({.status = 404,
                         .message = fmt::format("model: \"{}\" is not served here: {} {}", order->model.substr(0, 100),
                                                models_.size() == 1 ? "it is" : "there are", names),
                         .param = "model",
                         .code = "model_not_found"}));
  }
  auto prompts = prompts_of(*order, tokenizer_, served->config.block_size);
  if (!prompts) return reply(refuse(prompts.error()));

  const uint64_t seed = order->seed.value_or(std::random_device()() & 0x7fffffff);
  const bool streams = order->stream;
  CompletionHead head{
      .id = fmt::format("cmpl-{}-{}", rendezvous::random_hex(6), next_id_++),
      .model = served->name,
      .fingerprint = served->fingerprint,
      .created_s =
          std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count(),
      .seed = seed};
  const std::string id = head.id;
  const auto ongoing =
      std::make_shared<Ongoing>(id, Completion(std::move(head), *std::move(order), *std::move(prompts), tokenizer_), counts_);
  std::vector<TextServer::Order> orders;
  for (size_t i = 0; i < ongoing->completion.texts(); ++i) {
    orders.push_back({ongoing->completion.order(i),
                      [ongoing, i](const std::vector<model::WrittenToken>& tokens, TextServer::Outcome outcome) {
                        return ongoing->progress(i, tokens, outcome);
                      }});
  }
  if (const auto refused = served->texts->submit(std::move(orders), settings_.patience)) {
    if (refused->is_busy)
      return reply(refuse({.status = 429, .type = "rate_limit_error", .message = refused->why, .code = "busy"}));
    return reply(refuse({.message = refused->why, .param = refused->why.substr(0, refused->why.find(':'))}));
  }
  // The answer is a stream even where it is one piece of JSON: so a reader that goes away is noticed while texts are written.
  HttpResponse response{.content_type = streams ? "text/event-stream" : "application/json"};
  response.headers["Cache-Control"] = "no-cache";
  response.headers["X-Request-Id"] = id;
  const auto lost = std::shared_ptr<void>(nullptr, [ongoing](void*) {
    const bool never_began = [&] {
      const std::lock_guard lock(ongoing->mutex);
      return ongoing->stream == nullptr;
    }();
    if (never_began) ongoing->lose();
  });
  response.on_stream = [ongoing, lost](std::shared_ptr<rendezvous::EventStream> stream) {
    ongoing->begin_stream(std::move(stream));
  };
  reply(std::move(response));
}

HttpResponse CompletionsApi::models() const {
  Json all = Json::array();
  for (const ServedModels* models : models_) {
    const std::shared_ptr<const ServedModel> served = models->now();
    all.push_back({{"id", served->name},
                   {"object", "model"},
                   {"created", served->created_s},
                   {"owned_by", "holdfast"},
                   {"max_model_len", served->config.block_size},
                   {"step", served->step},
                   {"system_fingerprint", served->fingerprint}});
  }
  return {.body = text_of({{"object", "list"}, {"data", std::move(all)}})};
}

HttpResponse CompletionsApi::metrics() const {
  model::TextEngine::Load load{};
  for (const ServedModels* models : models_) models->count(load);
  rendezvous::PrometheusText text;
  const auto one = [&](const char* name, const char* type, const char* help, double value) {
    text.family(name, type, help);
    text.sample(value);
  };
  const auto number = [](int64_t count) { return static_cast<double>(count); };
  text.family("holdfast_serve_texts", "gauge", "Texts by what becomes of them now.");
  text.sample({{"state", "writing"}}, number(load.writing));
  text.sample({{"state", "reading"}}, number(load.reading));
  text.sample({{"state", "waiting"}}, number(load.waiting));
  text.family("holdfast_serve_requests_total", "counter", "Requests for texts, by what became of them.");
  text.sample({{"result", "taken"}}, number(counts_.requests - counts_.refused - counts_.busy));
  text.sample({{"result", "refused"}}, number(counts_.refused));
  text.sample({{"result", "busy"}}, number(counts_.busy));
  one("holdfast_serve_abandoned_total", "counter", "Requests whose client went away.", number(counts_.abandoned));
  one("holdfast_serve_first_token_seconds_total", "counter", "Time from a request to its first token, of all together.",
      number(counts_.first_token_us) * 1e-6);
  one("holdfast_serve_first_tokens_total", "counter", "Requests that got a first token.", number(counts_.first_tokens));
  one("holdfast_serve_prompt_tokens_total", "counter", "Tokens of prompts.", number(load.prompt_tokens));
  one("holdfast_serve_prompt_tokens_found_total", "counter", "Tokens of prompts whose keys and values were there already.",
      number(load.prompt_tokens_found));
  one("holdfast_serve_written_tokens_total", "counter", "Tokens written.", number(load.written_tokens));
  one("holdfast_serve_passes_total", "counter", "Passes through the model.", number(load.passes));
  one("holdfast_serve_began_again_total", "counter", "Texts that gave up their pages to older ones.", number(load.began_again));
  text.family("holdfast_serve_step", "gauge", "Step of the checkpoint that a model's requests are answered with.");
  for (const ServedModels* models : models_) text.sample({{"model", models->now()->name}}, number(models->now()->step));
  text.family("holdfast_serve_replaced_total", "counter", "Checkpoints of a model that a newer one took the place of.");
  for (const ServedModels* models : models_) text.sample({{"model", models->now()->name}}, number(models->replaced()));
  text.family("holdfast_serve_pages", "gauge",
              "Pages of keys and values: of them, held by texts; of them, found again by their tokens.");
  text.sample({{"pages", "all"}}, number(load.pages));
  text.sample({{"pages", "held"}}, number(load.pages_held));
  text.sample({{"pages", "kept"}}, number(load.pages_kept));
  return {.body = text.text(), .content_type = rendezvous::kPrometheusType};
}

}  // namespace holdfast::worker
