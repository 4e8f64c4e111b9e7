// The tables of tokens and webhooks. Part of the SQLite store, which see.
#pragma once

#include <string>

#include "rendezvous/store/job_store.h"
#include "rendezvous/store/sqlite/database.h"

namespace holdfast::rendezvous {

class SqliteAccess {
 public:
  explicit SqliteAccess(SqliteDatabase& database) : db_(database) {}

  StoredTokens load_tokens();
  void save(const TokenRow& row);
  void remove_token(const std::string& id);

  StoredWebhooks load_webhooks();
  void save(const WebhookRow& row);
  void remove_webhook(const std::string& id);
  void save(const DeliveryRow& row);
  void remove_delivery(int64_t id);

 private:
  int64_t last_number(const std::string& table);

  SqliteDatabase& db_;
};

}  // namespace holdfast::rendezvous
