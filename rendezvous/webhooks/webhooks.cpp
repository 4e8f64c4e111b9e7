#include "rendezvous/webhooks/webhooks.h"

#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <span>
#include <utility>

#include "rendezvous/client/http_client.h"
#include "rendezvous/client/retry.h"
#include "rendezvous/client/url.h"
#include "rendezvous/text/hex.h"

namespace holdfast::rendezvous {
namespace {

constexpr int64_t kFirstPauseMs = 5'000, kPauseMaxMs = 3'600'000, kGiveUpMs = 24 * 3'600'000;
constexpr auto kTimeout = std::chrono::seconds(10);
constexpr size_t kErrorBytesMax = 300, kAnswerBytesMax = 64 << 10;

int64_t pause_after(int64_t tries) {
  return std::min(kPauseMaxMs, kFirstPauseMs << std::min<int64_t>(tries - 1, 20));
}

// Statuses after which another try does not help. A time-out (408) and too many requests (429) are none of them.
bool refuses_for_good(int status) {
  return status >= 400 && !is_worth_repeating(status);
}

}  // namespace

std::string webhook_host(const std::string& url) {
  const auto parsed = parse_url(url);
  return parsed ? parsed->origin : "a URL that cannot be used";
}

Webhooks::Webhooks(StoredWebhooks stored) : last_number_(stored.last_number), last_delivery_(stored.last_delivery) {
  for (WebhookRow& row : stored.rows) {
    queues_[row.id];
    hooks_[row.id] = std::move(row);
  }
  for (DeliveryRow& row : stored.deliveries) {
    if (const auto found = queues_.find(row.webhook); found != queues_.end()) found->second.waiting.push_back(std::move(row));
  }
}

const DeliveryOutcome* Webhooks::last_outcome(const std::string& id) const {
  const auto found = queues_.find(id);
  return found == queues_.end() || !found->second.last ? nullptr : &*found->second.last;
}

int64_t Webhooks::waiting(const std::string& id) const {
  const auto found = queues_.find(id);
  return found == queues_.end() ? 0 : static_cast<int64_t>(found->second.waiting.size());
}

WebhookRow& Webhooks::add(WebhookRow row) {
  row.id = fmt::format("w{}", ++last_number_);
  queues_[row.id];
  return hooks_[row.id] = std::move(row);
}

void Webhooks::remove(const std::string& id) {
  hooks_.erase(id);
  queues_.erase(id);
}

Webhooks::Noted Webhooks::note_change(const std::string& state, const std::string& body, int64_t wall_ms) {
  Noted noted;
  for (const auto& [id, hook] : hooks_) {
    if (!hook.states.empty() && std::ranges::find(hook.states, state) == hook.states.end()) continue;
    Queue& queue = queues_[id];
    while (queue.waiting.size() >= kWaitingMax) {
      const auto oldest = queue.waiting.begin() + (queue.under_way ? 1 : 0);
      noted.dropped.push_back(oldest->id);
      if (queue.lost++ == 0) noted.begun_to_lose.push_back(id);
      queue.waiting.erase(oldest);
    }
    noted.made.push_back(queue.waiting.emplace_back(DeliveryRow{++last_delivery_, id, body, wall_ms, wall_ms, 0}));
  }
  return noted;
}

std::optional<DeliveryRow> Webhooks::take_due(int64_t wall_ms) {
  for (auto& [id, queue] : queues_) {
    if (queue.under_way || queue.waiting.empty() || queue.waiting.front().due_ms > wall_ms) continue;
    queue.under_way = true;
    return queue.waiting.front();
  }
  return std::nullopt;
}

Webhooks::Recorded Webhooks::record(int64_t delivery, const DeliveryOutcome& outcome) {
  const auto found = std::ranges::find_if(
      queues_, [&](const auto& entry) { return entry.second.under_way && entry.second.waiting.front().id == delivery; });
  if (found == queues_.end()) return {};
  Queue& queue = found->second;
  queue.under_way = false;
  Recorded recorded;
  recorded.taken = outcome.error.empty();
  recorded.begins_to_fail = !recorded.taken && (!queue.last || queue.last->error.empty());
  queue.last = outcome;
  DeliveryRow& row = queue.waiting.front();
  ++row.tries;
  row.due_ms = outcome.time_ms + pause_after(row.tries);
  recorded.row = row;
  if (recorded.taken) {
    recorded.lost = std::exchange(queue.lost, 0);
    queue.waiting.pop_front();
    return recorded;
  }
  const int64_t next_ms = recorded.row.due_ms;
  bool drop = refuses_for_good(outcome.status) && row.tries >= kRefusedTriesMax;
  // A receiver that took nothing for a day is not tried with each delivery that waited as long.
  while (!queue.waiting.empty() && (drop || next_ms > queue.waiting.front().made_ms + kGiveUpMs)) {
    recorded.dropped.push_back(queue.waiting.front().id);
    queue.waiting.pop_front();
    drop = false;
  }
  recorded.begins_to_lose = !recorded.dropped.empty() && queue.lost == 0;
  queue.lost += static_cast<int64_t>(recorded.dropped.size());
  return recorded;
}

std::string webhook_signature(const std::string& secret, const std::string& body, int64_t unix_s) {
  const std::string text = fmt::format("{}.{}", unix_s, body);
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned size = 0;
  HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()), reinterpret_cast<const unsigned char*>(text.data()),
       text.size(), digest.data(), &size);
  return fmt::format("t={},v1={}", unix_s, hex(std::as_bytes(std::span(digest).first(size))));
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
  const auto url = parse_url(hook.url);
  if (!url) return {wall_ms, 0, "its URL cannot be used"};
  HttpClient client(url->origin, "");
  client.ignore_bodies(kAnswerBytesMax);
  client.set_header("Holdfast-Signature", webhook_signature(hook.secret, delivery.body, wall_ms / 1000));
  client.set_header("Holdfast-Delivery", std::to_string(delivery.id));
  if (!clients.enter(client)) return {wall_ms, 0, "the service is stopping"};
  const struct Leaving {
    ClientsAtWork& clients;
    HttpClient& client;
    ~Leaving() { clients.leave(client); }
  } leaving{clients, client};
  const auto reply = client.request("POST", url->target, delivery.body, "application/json", kTimeout);
  if (reply && reply->status < 300) return {wall_ms, reply->status, ""};
  if (reply)
    return {wall_ms, reply->status,
            fmt::format("it answered {}, which leads elsewhere: give the address itself", reply->status)};
  if (reply.error().unreachable) return {wall_ms, 0, reply.error().cause.substr(0, kErrorBytesMax)};
  return {wall_ms, reply.error().problem.status, fmt::format("it answered {}", reply.error().problem.status)};
}

}  // namespace holdfast::rendezvous
