#include "rendezvous/webhooks.h"

#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "rendezvous/protocol/http_client.h"

namespace holdfast::rendezvous {
namespace {

constexpr int64_t kFirstPauseMs = 5'000, kPauseMaxMs = 3'600'000, kGiveUpMs = 24 * 3'600'000;
constexpr auto kTimeout = std::chrono::seconds(10);
constexpr size_t kErrorBytesMax = 300, kAnswerBytesMax = 64 << 10;

int64_t pause_after(int64_t tries) {
  return std::min(kPauseMaxMs, kFirstPauseMs << std::min<int64_t>(tries - 1, 20));
}

// Asking again does not help, unlike after a time-out or too many requests.
bool refuses_for_good(int status) {
  return status >= 400 && status < 500 && status != 408 && status != 429;
}

// "https://host:1/a/b?c" -> ("https://host:1", "/a/b?c").
std::pair<std::string, std::string> split_url(const std::string& url) {
  const size_t host = url.find("://");
  const size_t path = url.find_first_of("/?#", host == std::string::npos ? 0 : host + 3);
  if (path == std::string::npos) return {url, "/"};
  return {url.substr(0, path), fmt::format("{}{}", url[path] == '/' ? "" : "/", url.substr(path))};
}

}  // namespace

std::string webhook_host(const std::string& url) {
  return split_url(url).first;
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

Webhooks::Settled Webhooks::settle(int64_t delivery, const DeliveryOutcome& outcome) {
  const auto found = std::ranges::find_if(
      queues_, [&](const auto& entry) { return entry.second.under_way && entry.second.waiting.front().id == delivery; });
  if (found == queues_.end()) return {};
  Queue& queue = found->second;
  queue.under_way = false;
  Settled settled;
  settled.taken = outcome.error.empty();
  settled.begins_to_fail = !settled.taken && (!queue.last || queue.last->error.empty());
  queue.last = outcome;
  DeliveryRow& row = queue.waiting.front();
  ++row.tries;
  row.due_ms = outcome.time_ms + pause_after(row.tries);
  settled.row = row;
  if (settled.taken) {
    settled.lost = std::exchange(queue.lost, 0);
    queue.waiting.pop_front();
    return settled;
  }
  const int64_t next_ms = settled.row.due_ms;
  bool drop = refuses_for_good(outcome.status) && row.tries >= kRefusedTriesMax;
  // Who took nothing for a day is not tried with each of what waited as long.
  while (!queue.waiting.empty() && (drop || next_ms > queue.waiting.front().made_ms + kGiveUpMs)) {
    settled.dropped.push_back(queue.waiting.front().id);
    queue.waiting.pop_front();
    drop = false;
  }
  settled.begins_to_lose = !settled.dropped.empty() && queue.lost == 0;
  queue.lost += static_cast<int64_t>(settled.dropped.size());
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
  client.ignore_bodies(kAnswerBytesMax);
  client.set_header("Holdfast-Signature", webhook_signature(hook.secret, delivery.body, wall_ms / 1000));
  client.set_header("Holdfast-Delivery", std::to_string(delivery.id));
  if (!clients.enter(client)) return {wall_ms, 0, "the service is stopping"};
  const struct Leaving {
    ClientsAtWork& clients;
    HttpClient& client;
    ~Leaving() { clients.leave(client); }
  } leaving{clients, client};
  const auto reply = client.request("POST", path, delivery.body, "application/json", kTimeout);
  if (reply && reply->status < 300) return {wall_ms, reply->status, ""};
  if (reply)
    return {wall_ms, reply->status,
            fmt::format("it answered {}, which leads elsewhere: give the address itself", reply->status)};
  if (reply.error().unreachable) return {wall_ms, 0, reply.error().cause.substr(0, kErrorBytesMax)};
  return {wall_ms, reply.error().problem.status, fmt::format("it answered {}", reply.error().problem.status)};
}

}  // namespace holdfast::rendezvous
