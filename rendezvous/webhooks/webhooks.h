// The book of webhooks: the addresses that are told when a job's state changes, and the deliveries that are still to be made.
//
// Promises: a change and its deliveries are committed together, so none is lost with the service. Each delivery is tried until
// it is taken (a 2xx answer), with growing pauses, for a day. The receiver may see a delivery twice, and knows it by its id.
// Each is signed:
//   Holdfast-Signature: t=SECONDS,v1=HEX      HMAC-SHA256 of "SECONDS.BODY" under the webhook's secret
// Redirects are not followed. Only the status of an answer counts.
//
// A delivery is dropped in three cases. (1) The receiver refuses it for good (4xx, except 408 and 429) kRefusedTriesMax times:
// it must not hold back the others. (2) It was tried for a day: all that waited behind it as long are dropped, too. (3) More
// than kWaitingMax wait: the oldest is dropped. The caller is told when a webhook begins to lose deliveries, and how many were
// lost when it takes one again.
// Thread: one, the owner. The book itself sends nothing; deliver() does, on any thread.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "rendezvous/store/rows.h"

namespace holdfast::rendezvous {

struct DeliveryOutcome {
  int64_t time_ms = 0;
  int status = 0;     // 0: no answer
  std::string error;  // "" when the delivery was taken
};

// "https://host:1" of "https://host:1/a?b": the part that everybody may see, because paths and queries often hold secrets.
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
  // Makes the deliveries that tell of a job in `state`.
  struct Noted {
    std::vector<DeliveryRow> made;           // the caller saves them
    std::vector<int64_t> dropped;            // the caller deletes them: too many wait behind them
    std::vector<std::string> begun_to_lose;  // webhooks that lost their first delivery since they took one
  };
  Noted note_change(const std::string& state, const std::string& body, int64_t wall_ms);

  // The next delivery that is due. It is under way until record(), and its webhook gets no other before.
  std::optional<DeliveryRow> take_due(int64_t wall_ms);
  struct Recorded {
    DeliveryRow row;  // with the time of its next try; id 0: its webhook was removed meanwhile
    bool taken = false;
    std::vector<int64_t> dropped;  // the caller deletes them: this delivery, and others that waited as long
    bool begins_to_fail = false;   // the delivery before was taken, or there was none
    bool begins_to_lose = false;   // the first drop since a delivery was taken
    int64_t lost = 0;              // when taken: the number of deliveries that were dropped before it
  };
  Recorded record(int64_t delivery, const DeliveryOutcome& outcome);

 private:
  struct Queue {                      // of one webhook
    std::deque<DeliveryRow> waiting;  // oldest first; the receiver sees changes in order
    bool under_way = false;           // the first of `waiting` is being sent
    std::optional<DeliveryOutcome> last;
    int64_t lost = 0;  // dropped since one was taken
  };

  std::map<std::string, WebhookRow> hooks_;
  std::map<std::string, Queue> queues_;  // one for each of hooks_
  int64_t last_number_, last_delivery_;
};

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
