#include "rendezvous/webhooks.h"

#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "rendezvous/protocol/http_client.h"

namespace holdfast::rendezvous {
namespace {

constexpr int64_t kFirstPauseMs = 5'000, kPauseMaxMs = 3'600'000, kGiveUpMs = 24 * 3'600'000;
constexpr auto kTimeout = std::chrono::seconds(10);
constexpr size_t kErrorBytesMax = 300;

int64_t pause_after(int64_t tries) {
  return std::min(kPauseMaxMs, kFirstPauseMs << std::min<int64_t>(tries - 1, 20));
}

// "https://host:1/a/b?c" -> ("https://host:1", "/a/b?c").
std::pair<std::string, std::string> split_url(const std::string& url) {
  const size_t host = url.find("://");
  const size_t path = url.find_first_of("/?", host == std::string::npos ? 0 : host + 3);
  if (path == std::string::npos) return {url, "/"};
  return {url.substr(0, path), fmt::format("{}{}", url[path] == '?' ? "/" : "", url.substr(path))};
}

}  // namespace

Webhooks::Webhooks(StoredWebhooks stored) : last_number_(stored.last_number), last_delivery_(stored.last_delivery) {
  for (WebhookRow& row : stored.rows) hooks_[row.id] = std::move(row);
  for (DeliveryRow& row : stored.deliveries) deliveries_[row.id] = std::move(row);
}

const DeliveryOutcome* Webhooks::last_outcome(const std::string& id) const {
  const auto found = outcomes_.find(id);
  return found == outcomes_.end() ? nullptr : &found->second;
}

int64_t Webhooks::waiting(const std::string& id) const {
  return std::ranges::count_if(deliveries_, [&](const auto& entry) { return entry.second.webhook == id; });
}

WebhookRow& Webhooks::add(WebhookRow row) {
  row.id = fmt::format("w{}", ++last_number_);
  return hooks_[row.id] = std::move(row);
}

void Webhooks::remove(const std::string& id) {
  hooks_.erase(id);
  outcomes_.erase(id);
  std::erase_if(deliveries_, [&](const auto& entry) { return entry.second.webhook == id; });
}

std::vector<DeliveryRow> Webhooks::note_change(const std::string& state, const std::string& body, int64_t wall_ms) {
  std::vector<DeliveryRow> made;
  for (const auto& [id, hook] : hooks_) {
    if (!hook.states.empty() && std::ranges::find(hook.states, state) == hook.states.end()) continue;
    DeliveryRow row{++last_delivery_, id, body, wall_ms, wall_ms, 0};
    deliveries_[row.id] = row;
    made.push_back(std::move(row));
  }
  return made;
}

std::optional<DeliveryRow> Webhooks::take_due(int64_t wall_ms) {
  std::map<std::string, bool> seen;  // the oldest of each webhook goes first: its receiver sees changes in their order
  for (const auto& [id, row] : deliveries_) {
    if (!seen.emplace(row.webhook, true).second || under_way_.contains(row.webhook) || row.due_ms > wall_ms) continue;
    under_way_[row.webhook] = id;
    return row;
  }
  return std::nullopt;
}

Webhooks::Settled Webhooks::settle(int64_t delivery, const DeliveryOutcome& outcome) {
  std::erase_if(under_way_, [&](const auto& entry) { return entry.second == delivery; });
  const auto found = deliveries_.find(delivery);
  if (found == deliveries_.end()) return {true, false, {}};  // its webhook was removed meanwhile
  DeliveryRow& row = found->second;
  outcomes_[row.webhook] = outcome;
  ++row.tries;
  row.due_ms = outcome.time_ms + pause_after(row.tries);
  Settled settled{outcome.error.empty(), false, row};
  settled.given_up = !settled.done && row.due_ms > row.made_ms + kGiveUpMs;
  settled.done |= settled.given_up;
  if (settled.done) deliveries_.erase(found);
  return settled;
}

std::string webhook_signature(const std::string& secret, const std::string& body, int64_t unix_s) {
  const std::string text = fmt::format("{}.{}", unix_s, body);
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned size = 0;
  HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()), reinterpret_cast<const unsigned char*>(text.data()),
       text.size(), digest.data(), &size);
  std::string hex;
  for (unsigned i = 0; i < size; ++i) hex += fmt::format("{:02x}", digest[i]);
  return fmt::format("t={},v1={}", unix_s, hex);
}

bool ClientsAtWork::enter(HttpClient& client) {
  const std::lock_guard lock(mutex_);
  if (!cancelled_) clients_.insert(&client);
  return !cancelled_;
}

void ClientsAtWork::leave(HttpClient& client) {
  const std::lock_guard lock(mutex_);
  clients_.erase(&client);
}

void ClientsAtWork::cancel() {
  const std::lock_guard lock(mutex_);
  cancelled_ = true;
  for (HttpClient* client : clients_) client->cancel();
}

DeliveryOutcome deliver(const WebhookRow& hook, const DeliveryRow& delivery, int64_t wall_ms, ClientsAtWork& clients) {
  const auto [base, path] = split_url(hook.url);
  HttpClient client(base, "");
  client.set_header("Holdfast-Signature", webhook_signature(hook.secret, delivery.body, wall_ms / 1000));
  client.set_header("Holdfast-Delivery", std::to_string(delivery.id));
  if (!clients.enter(client)) return {wall_ms, 0, "the service is stopping"};
  const auto reply = client.request("POST", path, delivery.body, "application/json", kTimeout);
  clients.leave(client);
  if (reply && reply->status < 300) return {wall_ms, reply->status, ""};
  if (reply)
    return {wall_ms, reply->status,
            fmt::format("it answered {}, which leads elsewhere: give the address itself", reply->status)};
  if (reply.error().unreachable) return {wall_ms, 0, reply.error().cause.substr(0, kErrorBytesMax)};
  return {wall_ms, reply.error().problem.status, fmt::format("it answered {}", reply.error().problem.status)};
}

}  // namespace holdfast::rendezvous
