// The book of webhooks: the addresses that are told when a job's state changes, and the deliveries that are still to be made.
//
// Promises: a change and its deliveries are committed together, so none is lost with the service. Each delivery is tried until
// it is taken (a 2xx answer), with growing pauses, for a day. The receiver may see a delivery twice, and knows it by its id.
//
// A delivery is dropped in three cases. (1) The receiver refuses it for good (4xx, except 408 and 429) kRefusedTriesMax times:
// it must not hold back the others. (2) It was tried for a day: all that waited behind it as long are dropped, too. (3) More
// than kWaitingMax wait: the oldest is dropped. The caller is told when a webhook begins to lose deliveries, and how many were
// lost when it takes one again.
// Thread: one, the owner. The book sends nothing: delivery.h does, and api/webhook_sender.h brings the two together.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "rendezvous/store/rows.h"
#include "rendezvous/webhooks/delivery.h"

namespace holdfast::rendezvous {

class WebhookBook {
 public:
  static constexpr size_t kWaitingMax = 1'000;  // of one webhook
  static constexpr int64_t kRefusedTriesMax = 5;

  explicit WebhookBook(StoredWebhooks stored);

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

}  // namespace holdfast::rendezvous
