// Routes of webhooks: make, list, remove. webhook_sender.h sends to them.
//
// Thread: the owner's.
#pragma once

#include <nlohmann/json.hpp>

#include "rendezvous/api/turn/call.h"
#include "rendezvous/api/turn/turn.h"
#include "rendezvous/webhooks/book.h"

namespace holdfast::rendezvous {

class WebhooksApi {
 public:
  WebhooksApi(Turn& turn, WebhookBook& book) : turn_(turn), book_(book) {}

  void post_webhook(Call& call);
  void get_webhooks(Call& call);
  void delete_webhook(Call& call);

 private:
  nlohmann::json show_webhook(const WebhookRow& row) const;

  Turn& turn_;
  WebhookBook& book_;
};

}  // namespace holdfast::rendezvous
