// One delivery of a webhook: a POST to its address, signed:
//   Holdfast-Signature: t=SECONDS,v1=HEX      HMAC-SHA256 of "SECONDS.BODY" under the webhook's secret
// Redirects are not followed. Only the status of an answer counts. Thread: any.
#pragma once

#include <cstdint>
#include <mutex>
#include <set>
#include <string>

#include "rendezvous/store/rows.h"

namespace holdfast::rendezvous {

struct DeliveryOutcome {
  int64_t time_ms = 0;
  int status = 0;     // 0: no answer
  std::string error;  // "" when the delivery was taken
};

// "https://host:1" of "https://host:1/a?b": the part that everybody may see, because paths and queries often hold secrets.
std::string webhook_host(const std::string& url);

// The value of Holdfast-Signature.
std::string webhook_signature(const std::string& secret, const std::string& body, int64_t unix_s);

// The requests that are under way, so that another thread can end them. Thread: any.
class HttpClient;
class ClientsAtWork {
 public:
  bool enter(HttpClient& client);  // false: cancel() was called
  void leave(HttpClient& client);
  void cancel();  // ends all requests, and those to come

 private:
  std::mutex mutex_;
  std::set<HttpClient*> clients_;
  bool cancelled_ = false;
};

// Sends one delivery. Blocks for some seconds at most, and returns at once after clients.cancel().
DeliveryOutcome deliver(const WebhookRow& hook, const DeliveryRow& delivery, int64_t wall_ms, ClientsAtWork& clients);

}  // namespace holdfast::rendezvous
