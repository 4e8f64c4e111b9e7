// Routes of webhooks; and from a job's change of state to what is sent.
#include <fmt/format.h>

#include <algorithm>

#include "rendezvous/secrets.h"
#include "rendezvous/service_impl.h"
#include "rendezvous/text_bounds.h"
#include "rendezvous/views.h"

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

Json Service::Impl::show_webhook(const WebhookRow& row) const {
  Json json = {{"id", row.id},
               {"url", row.url},
               {"states", row.states},
               {"created_at", time_text(row.created_ms)},
               {"waiting", webhooks_.waiting(row.id)},
               {"last_delivery", nullptr}};
  const DeliveryOutcome* last = webhooks_.last_outcome(row.id);
  json["failing"] = last != nullptr && !last->error.empty();
  if (last != nullptr) {
    json["last_delivery"] = {{"time", time_text(last->time_ms)},
                             {"status", last->status == 0 ? Json(nullptr) : Json(last->status)},
                             {"error", last->error.empty() ? Json(nullptr) : Json(last->error)}};
  }
  return json;
}

void Service::Impl::post_webhook(Call& call) {
  const auto body = read_json(call.request);
  if (!body) return answer(call, body.error());
  auto wanted = read_webhook(*body, clock_.wall_ms());
  if (!wanted) return answer(call, wanted.error());
  if (webhooks_.all().size() >= kWebhooksMax)
    return answer(call, problem(409, "too_many",
                                fmt::format("there are {} webhooks already: remove those that nobody needs", kWebhooksMax)));
  const WebhookRow& row = webhooks_.add(*std::move(wanted));
  state_.write().save_webhook(row);
  state_.event("", "webhook_created", fmt::format("{}: changes of jobs are sent to {}", row.id, webhook_host(row.url)));
  Json shown = show_webhook(row);
  shown["secret"] = row.secret;
  HttpResponse response = json_answer(201, shown);
  response.headers["Location"] = "/v1/webhooks/" + row.id;
  answer(call, std::move(response));
}

void Service::Impl::get_webhooks(Call& call) {
  Json list = Json::array();
  for (const auto& [id, row] : webhooks_.all()) list.push_back(show_webhook(row));
  answer(call, json_answer(200, {{"webhooks", std::move(list)}, {"next_page_token", nullptr}}));
}

void Service::Impl::delete_webhook(Call& call) {
  const std::string& id = call.arguments[0];
  const auto found = webhooks_.all().find(id);
  if (found == webhooks_.all().end()) {
    return answer(call,
                  problem(404, "not_found",
                          fmt::format("there is no webhook {}; GET /v1/webhooks lists them", shortened(id, kWordBytesMax))));
  }
  state_.event("", "webhook_removed", fmt::format("{}: nothing more is sent to {}", id, webhook_host(found->second.url)));
  state_.write().remove_webhook(id);
  webhooks_.remove(id);
  answer(call, empty_answer());
}

// In the transaction of the changes themselves.
void Service::Impl::note_changes() {
  for (const StateChange& change : state_.take_state_changes()) {
    if (webhooks_.all().empty()) continue;
    const Job* job = state_.find_job(change.job);
    if (job == nullptr) continue;
    Json shown = summarize_job(state_, *job);
    shown["state"] = job_state_name(change.to);
    shown["reason"] = change.reason;
    const std::string body = json_text({{"event", "job_state_changed"},
                                        {"time", time_text(change.time_ms)},
                                        {"from", job_state_name(change.from)},
                                        {"to", job_state_name(change.to)},
                                        {"job", std::move(shown)}});
    const Webhooks::Noted noted = webhooks_.note_change(job_state_name(change.to), body, change.time_ms);
    for (const DeliveryRow& row : noted.made) state_.write().save_delivery(row);
    for (const int64_t id : noted.dropped) state_.write().remove_delivery(id);
    for (const std::string& id : noted.begun_to_lose) {
      state_.event("", "webhook_given_up",
                   fmt::format("{}: more than {} deliveries wait for it: the oldest are dropped until it takes one", id,
                               Webhooks::kWaitingMax));
    }
  }
}

void Service::Impl::send_webhooks() {
  while (const auto row = webhooks_.take_due(clock_.wall_ms())) {
    const auto tell = [this, id = row->id](const DeliveryOutcome& outcome) {
      {
        const std::lock_guard lock(mutex_);
        delivered_.emplace_back(id, outcome);
      }
      changed_.notify_one();
    };
    const auto sending = [this, tell, delivery = *row, hook = webhooks_.all().at(row->webhook)] {
      tell(deliver(hook, delivery, clock_.wall_ms(), sending_));
    };
    const bool posted = senders_.post(sending, [this, tell](const std::string& why) { tell({clock_.wall_ms(), 0, why}); });
    if (!posted) return settle_delivery(row->id, {clock_.wall_ms(), 0, "too many are being sent"});
  }
}

void Service::Impl::settle_deliveries() {
  std::vector<std::pair<int64_t, DeliveryOutcome>> delivered;
  {
    const std::lock_guard lock(mutex_);
    delivered.swap(delivered_);
  }
  for (const auto& [id, outcome] : delivered) settle_delivery(id, outcome);
}

void Service::Impl::settle_delivery(int64_t id, const DeliveryOutcome& outcome) {
  const Webhooks::Settled settled = webhooks_.settle(id, outcome);
  const DeliveryRow& row = settled.row;
  if (row.id == 0) return;
  for (const int64_t dropped : settled.dropped) state_.write().remove_delivery(dropped);
  if (settled.taken) {
    state_.write().remove_delivery(id);
  } else if (settled.dropped.empty()) {
    state_.write().save_delivery(row);
  }
  if (settled.begins_to_fail && settled.dropped.empty()) {
    state_.event("", "webhook_failing",
                 fmt::format("{}: delivery {} was not taken and is tried again: {}", row.webhook, id, outcome.error));
  }
  if (settled.begins_to_lose) {
    const size_t others = settled.dropped.size() - 1;
    state_.event(
        "", "webhook_given_up",
        fmt::format("{}: delivery {} was tried {} times and is dropped{}: {}. What it loses from here on is told when "
                    "it takes one",
                    row.webhook, id, row.tries,
                    others == 0 ? std::string() : fmt::format(", with {} that waited behind it", others), outcome.error));
  }
  if (settled.lost > 0) {
    state_.event("", "webhook_recovered",
                 fmt::format("{}: delivery {} was taken; {} before it {} dropped", row.webhook, id, settled.lost,
                             settled.lost == 1 ? "was" : "were"));
  }
}

}  // namespace holdfast::rendezvous
