// Who is to be told over HTTP when a job's state changes, and what is still to be told.
//
// Promises: a change and the word of it are committed together, so none is lost with the service. Each is sent until it is
// taken (a 2xx answer), with growing pauses, for a day; the receiver may see one twice, and knows it by its id. Signed as
//   Holdfast-Signature: t=SECONDS,v1=HEX      HMAC-SHA256 of "SECONDS.BODY" under the webhook's secret
// Redirects are not followed. Thread: one, the owner; it sends nothing itself.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace holdfast::rendezvous {

struct WebhookRow {
  std::string id;  // "w2"
  std::string url;
  std::vector<std::string> states;  // that it is told of; empty: all
  std::string secret;
  int64_t created_ms = 0;
};
struct DeliveryRow {
  int64_t id = 0;  // of the order in which things happened
  std::string webhook, body;
  int64_t made_ms = 0, due_ms = 0;  // wall time
  int64_t tries = 0;
};
struct StoredWebhooks {
  std::vector<WebhookRow> rows;
  std::vector<DeliveryRow> deliveries;
  int64_t last_number = 0, last_delivery = 0;
};

struct DeliveryOutcome {
  int64_t time_ms = 0;
  int status = 0;     // 0: no answer
  std::string error;  // "" where it was taken
};

class Webhooks {
 public:
  explicit Webhooks(StoredWebhooks stored);

  const std::map<std::string, WebhookRow>& all() const { return hooks_; }
  const DeliveryOutcome* last_outcome(const std::string& id) const;
  int64_t waiting(const std::string& id) const;  // deliveries

  WebhookRow& add(WebhookRow row);  // gives it its id
  void remove(const std::string& id);
  // What is to be sent because a job is in `state` now; to be kept by the caller.
  std::vector<DeliveryRow> note_change(const std::string& state, const std::string& body, int64_t wall_ms);

  // The next to be sent, none of a webhook that one is being sent to; it is under way until settle().
  std::optional<DeliveryRow> take_due(int64_t wall_ms);
  struct Settled {
    bool done = false;  // taken, or given up: it is to be forgotten
    bool given_up = false;
    DeliveryRow row;  // with its next time, where it is not done
  };
  Settled settle(int64_t delivery, const DeliveryOutcome& outcome);

 private:
  std::map<std::string, WebhookRow> hooks_;
  std::map<int64_t, DeliveryRow> deliveries_;
  std::map<std::string, int64_t> under_way_;  // webhook -> delivery
  std::map<std::string, DeliveryOutcome> outcomes_;
  int64_t last_number_, last_delivery_;
};

// The value of Holdfast-Signature.
std::string webhook_signature(const std::string& secret, const std::string& body, int64_t unix_s);

// Requests that are under way, so that they can be ended. Thread: any.
class HttpClient;
class ClientsAtWork {
 public:
  bool enter(HttpClient& client);  // false: cancelled already
  void leave(HttpClient& client);
  void cancel();  // all, and those to come

 private:
  std::mutex mutex_;
  std::set<HttpClient*> clients_;
  bool cancelled_ = false;
};

// Sends it: blocks for some seconds at most, and not beyond clients.cancel().
DeliveryOutcome deliver(const WebhookRow& hook, const DeliveryRow& delivery, int64_t wall_ms, ClientsAtWork& clients);

}  // namespace holdfast::rendezvous
