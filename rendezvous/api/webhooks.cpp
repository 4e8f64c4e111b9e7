#include "rendezvous/api/webhooks.h"

#include <fmt/format.h>

#include <algorithm>

#include "rendezvous/api/answers/answers.h"
#include "rendezvous/api/answers/problems.h"
#include "rendezvous/api/answers/views.h"
#include "rendezvous/text/random_hex.h"
#include "rendezvous/text/text_bounds.h"

namespace holdfast::rendezvous {
namespace {

using Json = nlohmann::json;

constexpr size_t kUrlBytesMax = 2000, kSecretBytesMin = 16, kSecretBytesMax = 200, kSecretBytes = 32, kWebhooksMax = 100;

bool is_url(const std::string& text) {
  const size_t scheme = text.starts_with("https://") ? 8 : text.starts_with("http://") ? 7 : 0;
  const bool plain = std::ranges::all_of(text, [](unsigned char c) { return c > 0x20 && c < 0x7f; });
  return scheme > 0 && plain && text.size() > scheme && text[scheme] != '/' && text.find('@') == std::string::npos;
}

Outcome<WebhookRow> read_webhook(const Json& body, int64_t wall_ms) {
  if (!body.is_object())
    return tl::unexpected(bad_field("", "expected an object such as {\"url\": \"https://example.org/holdfast\"}"));
  WebhookRow row;
  row.created_ms = wall_ms;
  for (const auto& item : body.items()) {
    const std::string& field = item.key();
    const Json& value = item.value();
    if (field == "url") {
      if (value.is_string()) row.url = value;
      if (row.url.size() > kUrlBytesMax || !is_url(row.url)) {
        return tl::unexpected(
            bad_field("url", fmt::format("must be an http or https address of at most {} bytes, without a name and "
                                         "password in it",
                                         kUrlBytesMax)));
      }
    } else if (field == "secret") {
      if (value.is_string()) row.secret = value;
      if (row.secret.size() < kSecretBytesMin || row.secret.size() > kSecretBytesMax)
        return tl::unexpected(
            bad_field("secret", fmt::format("must be a text of {} to {} bytes", kSecretBytesMin, kSecretBytesMax)));
    } else if (field == "states") {
      if (!value.is_array() || value.size() > 20) return tl::unexpected(bad_field("states", "must be a list of states"));
      for (const Json& state : value) {
        try {
          job_state_from(state.is_string() ? state.get<std::string>() : state.dump());
        } catch (const std::invalid_argument& error) {
          return tl::unexpected(bad_field("states", error.what()));
        }
        row.states.push_back(state);
      }
    } else {
      return tl::unexpected(bad_field(field.substr(0, 64), "no such field; there are url, states and secret"));
    }
  }
  if (row.url.empty()) return tl::unexpected(bad_field("url", "is needed: where the changes are sent to"));
  if (row.secret.empty()) row.secret = "hfw_" + random_hex(kSecretBytes);
  return row;
}

}  // namespace

Json WebhooksApi::show_webhook(const WebhookRow& row) const {
  Json json = {{"id", row.id},
               {"url", row.url},
               {"states", row.states},
               {"created_at", time_json(row.created_ms)},
               {"waiting", book_.waiting(row.id)},
               {"last_delivery", nullptr}};
  const DeliveryOutcome* last = book_.last_outcome(row.id);
  json["failing"] = last != nullptr && !last->error.empty();
  if (last != nullptr) {
    json["last_delivery"] = {{"time", time_json(last->time_ms)},
                             {"status", last->status == 0 ? Json(nullptr) : Json(last->status)},
                             {"error", last->error.empty() ? Json(nullptr) : Json(last->error)}};
  }
  return json;
}

void WebhooksApi::post_webhook(Call& call) {
  const auto body = read_json(call.request);
  if (!body) return call.answer(body.error());
  auto wanted = read_webhook(*body, turn_.clock.wall_ms());
  if (!wanted) return call.answer(wanted.error());
  if (book_.all().size() >= kWebhooksMax)
    return call.answer(
        problem(409, "too_many", fmt::format("there are {} webhooks already: remove those that nobody needs", kWebhooksMax)));
  const WebhookRow& row = book_.add(*std::move(wanted));
  turn_.state.journal().write().save_webhook(row);
  turn_.state.journal().record(
      {"webhook_created", fmt::format("{}: changes of jobs are sent to {}", row.id, webhook_host(row.url))});
  Json shown = show_webhook(row);
  shown["secret"] = row.secret;
  HttpResponse response = json_answer(201, shown);
  response.headers["Location"] = "/v1/webhooks/" + row.id;
  call.answer(std::move(response));
}

void WebhooksApi::get_webhooks(Call& call) {
  Json list = Json::array();
  for (const auto& [id, row] : book_.all()) list.push_back(show_webhook(row));
  call.answer(json_answer(200, {{"webhooks", std::move(list)}, {"next_page_token", nullptr}}));
}

void WebhooksApi::delete_webhook(Call& call) {
  const std::string& id = call.arguments[0];
  const auto found = book_.all().find(id);
  if (found == book_.all().end()) {
    return call.answer(problem(
        404, "not_found", fmt::format("there is no webhook {}; GET /v1/webhooks lists them", shortened(id, kWordBytesMax))));
  }
  turn_.state.journal().record(
      {"webhook_removed", fmt::format("{}: nothing more is sent to {}", id, webhook_host(found->second.url))});
  turn_.state.journal().write().remove_webhook(id);
  book_.remove(id);
  call.answer(empty_answer());
}

}  // namespace holdfast::rendezvous
