#include "worker/serving/stages/stage_api.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <charconv>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "rendezvous/http/bearer_token.h"
#include "rendezvous/text/sha256.h"
#include "worker/serving/stages/pass_bytes.h"

namespace holdfast::worker {
namespace {

using rendezvous::Admission;
using rendezvous::admission_with;
using rendezvous::HttpRequest;
using rendezvous::HttpResponse;
using rendezvous::Reply;

constexpr size_t kPassesWaiting = 64;

HttpResponse refusal(int status, const std::string& detail) {
  return {.status = status,
          .body = nlohmann::json{{"status", status}, {"title", "a pass is refused"}, {"detail", detail}}.dump(),
          .content_type = rendezvous::kProblemType};
}

std::string header(const HttpRequest& request, const char* name) {
  const auto found = request.headers.find(name);
  return found == request.headers.end() ? "" : found->second;
}

int64_t number_in(const std::string& text) {
  int64_t number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && rest == text.data() + text.size() ? number : 0;
}

}  // namespace

StageApi::StageApi(model::Decoder& decoder, StageFacts facts, std::set<std::string> tokens, OnFailure on_failure)
    : decoder_(decoder),
      facts_(std::move(facts)),
      tokens_(std::move(tokens)),
      on_failure_(std::move(on_failure)),
      pool_(1, kPassesWaiting) {}

Admission StageApi::gate(const HttpRequest& head) {
  if (head.path == "/healthz") return admission_with({.body = "ok\n", .content_type = "text/plain"});
  const std::string token = rendezvous::bearer_token(head);
  if (!tokens_.empty() && (token.empty() || !tokens_.contains(rendezvous::sha256_hex(std::as_bytes(std::span(token))))))
    return {.refusal = refusal(401, "send `Authorization: Bearer TOKEN` with one of this stage's tokens")};
  if (head.method == "GET" && head.path == "/v1/stage") {
    return admission_with({.body = nlohmann::json{{"fingerprint", facts_.fingerprint},
                                                  {"first_layer", facts_.layers.first},
                                                  {"end_layer", facts_.layers.end},
                                                  {"rows", facts_.rows},
                                                  {"pages", facts_.pages}}
                                       .dump()});
  }
  if (head.method != "POST" || head.path != "/v1/stage/pass")
    return {.refusal = refusal(404, "no such route; there are GET /v1/stage, POST /v1/stage/pass and /healthz")};
  return {.refusal = std::nullopt, .known = true, .handler = [this](HttpRequest request, Reply reply) {
            const auto fail = [this, reply](const std::string& why) {
              reply(refusal(500, why));
              if (on_failure_) on_failure_(why);
            };
            const bool posted = pool_.post([this, request = std::move(request), reply] { reply(pass(request)); }, fail);
            if (!posted) reply(refusal(503, "too many passes wait"));
          }};
}

// A pass that comes again, because its answer was lost, is answered again and not computed: a page that is full has another
// form, and is not written to again (decode_ops.h).
HttpResponse StageApi::pass(const HttpRequest& request) {
  const std::string driver = header(request, "holdfast-driver");
  const int64_t number = number_in(header(request, "holdfast-pass"));
  if (number == 1 && driver != driver_) {
    driver_ = driver;
    passes_ = 0;
    answer_.clear();
    spdlog::info("passes come from {} ({})", request.peer, driver);
  }
  if (driver != driver_) return refusal(409, "another server drives this stage, and began later");
  const auto answer = [this] { return HttpResponse{.body = answer_, .content_type = "application/octet-stream"}; };
  if (number > 0 && number == passes_) return answer();
  if (number != passes_ + 1)
    return refusal(409, fmt::format("pass {} comes after pass {}: those between are lost", number, passes_));
  const auto received = read_pass(request.body, decoder_, facts_.layers.first == 0);
  if (!received) return refusal(400, received.error());
  // Nobody drives it should the pass fail: half of it may be in the pages, so whoever did has to begin anew.
  std::string driving = std::exchange(driver_, "");
  answer_ = bytes_of(decoder_.feed_through(received->feeds, received->from()));
  driver_ = std::move(driving);
  passes_ = number;
  return answer();
}

}  // namespace holdfast::worker
