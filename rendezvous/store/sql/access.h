// The tables of tokens and webhooks. Part of SqlStore, which see.
#pragma once

#include <string>

#include "rendezvous/store/job_store.h"
#include "rendezvous/store/sql/database.h"

namespace holdfast::rendezvous {

class SqlAccess {
 public:
  explicit SqlAccess(SqlDatabase& database) : db_(database) {}

  StoredTokens load_tokens();
  void save(const TokenRow& row);
  void remove_token(const std::string& id);

  StoredWebhooks load_webhooks();
  void save(const WebhookRow& row);
  void remove_webhook(const std::string& id);
  void save(const DeliveryRow& row);
  void remove_delivery(int64_t id);

 private:
  SqlDatabase& db_;
};

}  // namespace holdfast::rendezvous
