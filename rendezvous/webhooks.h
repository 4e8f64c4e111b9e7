// Who is to be told over HTTP when a job's state changes, and what is still to be told.
//
// Promises: a change and the word of it are committed together, so none is lost with the service. Each is sent until it is
// taken (a 2xx answer), with growing pauses, for a day; the receiver may see one twice, and knows it by its id. Signed as
//   Holdfast-Signature: t=SECONDS,v1=HEX      HMAC-SHA256 of "SECONDS.BODY" under the webhook's secret
// Redirects are not followed. Of an answer only its status is looked at.
//
// What is dropped: one that the receiver refuses for good (4xx, but for 408 and 429), after kRefusedTriesMax tries, so that it
// does not hold back the others; when one was tried for a day, it and all that waited behind it as long; the oldest, where more
// than kWaitingMax wait. Of a receiver that goes on losing some the caller is told at the first, and how many when it takes
// something again.
// Thread: one, the owner; it sends nothing itself.
#pragma once

#include <cstdint>
#include <deque>
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

// "https://host:1" of "https://host:1/a?b": what everybody may see. Paths and queries hold secrets often.
std::string webhook_host(const std::string& url);

class Webhooks {
 public:
  static constexpr size_t kWaitingMax = 1'000;  // of one webhook
  static constexpr int64_t kRefusedTriesMax = 5;

  explicit Webhooks(StoredWebhooks stored);

  const std::map<std::string, WebhookRow>& all() const { return hooks_; }
  const DeliveryOutcome* last_outcome(const std::string& id) const;
  int64_t waiting(const std::string& id) const;  // deliveries

  WebhookRow& add(WebhookRow row);  // gives it its id
  void remove(const std::string& id);
  // What is to be sent because a job is in `state` now.
  struct Noted {
    std::vector<DeliveryRow> made;           // to be kept by the caller
    std::vector<int64_t> dropped;            // to be forgotten: too many wait behind them
    std::vector<std::string> begun_to_lose;  // webhooks of these that had lost none since they took one
  };
  Noted note_change(const std::string& state, const std::string& body, int64_t wall_ms);

  // The next to be sent, none of a webhook that one is being sent to; it is under way until settle().
  std::optional<DeliveryRow> take_due(int64_t wall_ms);
  struct Settled {
    DeliveryRow row;  // with its next time, where it is kept; its id is 0 where its webhook was removed meanwhile
    bool taken = false;
    std::vector<int64_t> dropped;  // given up, it and others: they are to be forgotten
    bool begins_to_fail = false;   // the one before was taken, or there was none
    bool begins_to_lose = false;   // it is the first that is dropped since one was taken
    int64_t lost = 0;              // of one that was taken: how many were dropped before it
  };
  Settled settle(int64_t delivery, const DeliveryOutcome& outcome);

 private:
  struct Queue {                      // of one webhook
    std::deque<DeliveryRow> waiting;  // the oldest first; the receiver sees changes in their order
    bool under_way = false;           // the first one is
    std::optional<DeliveryOutcome> last;
    int64_t lost = 0;  // since one was taken
  };

  std::map<std::string, WebhookRow> hooks_;
  std::map<std::string, Queue> queues_;  // those of hooks_
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
