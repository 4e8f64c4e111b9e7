#include "worker/serving/completions_api.h"

#include <fmt/format.h>

#include <utility>

#include "rendezvous/http/bearer_token.h"
#include "rendezvous/text/prometheus/prometheus_text.h"
#include "rendezvous/text/sha256.h"
#include "worker/serving/playground_files.h"

namespace holdfast::worker {
namespace {

using Json = nlohmann::json;
using rendezvous::Admission;
using rendezvous::admission_with;
using rendezvous::ApiError;
using rendezvous::HttpRequest;
using rendezvous::HttpResponse;

std::string text_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Of the playground; null: the path is none of its files.
const rendezvous::StaticFile* page_file(const HttpRequest& head) {
  constexpr std::string_view kFolder = "/page/";
  if (head.method != "GET" && head.method != "HEAD") return nullptr;
  if (head.path == "/") return find_playground_file("playground.html");
  return head.path.starts_with(kFolder) ? find_playground_file(std::string_view(head.path).substr(kFolder.size())) : nullptr;
}

}  // namespace

CompletionsApi::CompletionsApi(std::vector<const ServedModels*> models, const model::Tokenizer& tokenizer, Settings settings)
    : models_(std::move(models)), tokenizer_(tokenizer), settings_(std::move(settings)), desk_(settings_.texts) {}

Admission CompletionsApi::gate(const HttpRequest& head) {
  const auto refusal = [&](const ApiError& error) { return Admission{.refusal = desk_.refuse(error)}; };
  if (head.path == "/healthz") return admission_with({.body = "ok\n", .content_type = "text/plain"});
  if (const rendezvous::StaticFile* file = page_file(head)) return admission_with(answer_with(*file, head));
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
  if (head.path == "/metrics" && head.method == "GET") return admission_with(metrics());
  if (head.path == "/v1/models" && head.method == "GET") return admission_with(models());
  if (head.path == "/v1/completions") {
    if (head.method != "POST") return refusal({.status = 405, .message = head.path + ": POST a request"});
    return {
        .refusal = std::nullopt, .known = true, .handler = [this](const HttpRequest& request, const rendezvous::Reply& reply) {
          desk_.take(request, reply, [this](const std::string& name) { return find(name); });
        }};
  }
  return refusal(
      {.status = 404,
       .message = fmt::format("{} {}: no such route; there are POST /v1/completions, GET /v1/models, /metrics, /healthz and /",
                              head.method, head.path),
       .code = "not_found"});
}

tl::expected<rendezvous::AskedModel, ApiError> CompletionsApi::find(const std::string& name) const {
  std::string names;
  for (const ServedModels* models : models_) {
    const std::shared_ptr<const ServedModel> now = models->now();
    if (now->name == name) {
      return rendezvous::AskedModel{.name = now->name,
                                    .fingerprint = now->fingerprint,
                                    .block_size = now->config.block_size,
                                    .tokenizer = std::shared_ptr<const model::Tokenizer>(std::shared_ptr<void>(), &tokenizer_),
                                    .texts = std::shared_ptr<rendezvous::Texts>(now, now->texts.get())};
    }
    names += fmt::format("{}\"{}\"", names.empty() ? "" : ", ", now->name);
  }
  return tl::unexpected(ApiError{.status = 404,
                                 .message = fmt::format("model: \"{}\" is not served here: {} {}", name.substr(0, 100),
                                                        models_.size() == 1 ? "it is" : "there are", names),
                                 .param = "model",
                                 .code = "model_not_found"});
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
  desk_.add_metrics(text);
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
