#include "rendezvous/webhooks/delivery.h"

#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <array>
#include <chrono>
#include <span>

#include "rendezvous/client/http_client.h"
#include "rendezvous/client/url.h"
#include "rendezvous/text/hex.h"

namespace holdfast::rendezvous {
namespace {

constexpr auto kTimeout = std::chrono::seconds(10);
constexpr size_t kErrorBytesMax = 300, kAnswerBytesMax = 64 << 10;

}  // namespace

std::string webhook_host(const std::string& url) {
  const auto parsed = parse_url(url);
  return parsed ? parsed->origin : "a URL that cannot be used";
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
  if (reply) return {wall_ms, reply->status, ""};
  if (reply.error().unreachable) return {wall_ms, 0, reply.error().cause.substr(0, kErrorBytesMax)};
  const int status = reply.error().problem.status;
  const char* const elsewhere = status < 400 ? ", which leads elsewhere: give the address itself" : "";
  return {wall_ms, status, fmt::format("it answered {}{}", status, elsewhere)};
}

}  // namespace holdfast::rendezvous
