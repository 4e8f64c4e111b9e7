// From a job's change of state to the requests that tell webhooks of it.
//
// Promises: a delivery is written down in the transaction of the change itself, and sent after the commit. Outcomes come back
// to the owner thread as commands. Thread: the owner's; requests are made on threads of the sender.
#pragma once

#include "rendezvous/api/turn/turn.h"
#include "rendezvous/http/work_pool.h"
#include "rendezvous/webhooks/book.h"

namespace holdfast::rendezvous {

class WebhookSender {
 public:
  WebhookSender(Turn& turn, StoredWebhooks stored);

  WebhookBook& book() { return book_; }
  void note_changes();                  // before the commit: makes deliveries of the changes of this turn
  void send_due();                      // after the commit
  void cancel() { clients_.cancel(); }  // ends the requests that are under way: the next life of the service makes them again

 private:
  void record(int64_t delivery, const DeliveryOutcome& outcome);

  Turn& turn_;
  WebhookBook book_;
  ClientsAtWork clients_;
  WorkPool pool_;  // last: its work uses the others
};

}  // namespace holdfast::rendezvous
