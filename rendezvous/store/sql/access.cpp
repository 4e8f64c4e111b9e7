// An id is a letter and the row's number: "t3", "w2".
#include "rendezvous/store/sql/access.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace holdfast::rendezvous {
namespace {

int64_t id_number(const std::string& id) {
  return std::stoll(id.substr(1));
}

}  // namespace

StoredTokens SqlAccess::load_tokens() {
  StoredTokens stored;
  stored.last_number = db_.last_id("tokens");
  auto q = db_.prepare("SELECT number, name, role, digest, created_ms, expires_ms, used_ms FROM tokens ORDER BY number");
  while (q.step()) {
    const auto role = role_from(q.text(2));
    if (!role) {
      throw StoreError(fmt::format("database {}: token t{} has the role \"{}\", which this program does not know", db_.name(),
                                   q.integer(0), q.text(2)));
    }
    stored.rows.push_back(
        {fmt::format("t{}", q.integer(0)), q.text(1), *role, q.text(3), q.integer(4), q.integer(5), q.integer(6)});
  }
  return stored;
}

void SqlAccess::save(const TokenRow& row) {
  db_.prepare(
         "INSERT INTO tokens (number, name, role, digest, created_ms, expires_ms, used_ms) VALUES (?,?,?,?,?,?,?) "
         "ON CONFLICT(number) DO UPDATE SET used_ms=excluded.used_ms")
      .with(id_number(row.id), row.name, role_name(row.role), row.digest, row.created_ms, row.expires_ms, row.used_ms)
      .run();
  db_.note_id("tokens", id_number(row.id));
}

void SqlAccess::remove_token(const std::string& id) {
  db_.prepare("DELETE FROM tokens WHERE number = ?").with(id_number(id)).run();
}

StoredWebhooks SqlAccess::load_webhooks() {
  StoredWebhooks stored;
  stored.last_number = db_.last_id("webhooks");
  stored.last_delivery = db_.last_id("webhook_deliveries");
  auto hooks = db_.prepare("SELECT number, url, states, secret, created_ms FROM webhooks ORDER BY number");
  while (hooks.step()) {
    stored.rows.push_back({fmt::format("w{}", hooks.integer(0)), hooks.text(1),
                           nlohmann::json::parse(hooks.text(2)).get<std::vector<std::string>>(), hooks.text(3),
                           hooks.integer(4)});
  }
  auto sent = db_.prepare("SELECT id, webhook, body, made_ms, due_ms, tries FROM webhook_deliveries ORDER BY id");
  while (sent.step()) {
    stored.deliveries.push_back({sent.integer(0), fmt::format("w{}", sent.integer(1)), sent.text(2), sent.integer(3),
                                 sent.integer(4), sent.integer(5)});
  }
  return stored;
}

void SqlAccess::save(const WebhookRow& row) {
  db_.prepare("INSERT INTO webhooks (number, url, states, secret, created_ms) VALUES (?,?,?,?,?)")
      .with(id_number(row.id), row.url, nlohmann::json(row.states).dump(), row.secret, row.created_ms)
      .run();
  db_.note_id("webhooks", id_number(row.id));
}

void SqlAccess::remove_webhook(const std::string& id) {
  db_.prepare("DELETE FROM webhook_deliveries WHERE webhook = ?").with(id_number(id)).run();
  db_.prepare("DELETE FROM webhooks WHERE number = ?").with(id_number(id)).run();
}

void SqlAccess::save(const DeliveryRow& row) {
  db_.prepare(
         "INSERT INTO webhook_deliveries (id, webhook, body, made_ms, due_ms, tries) VALUES (?,?,?,?,?,?) "
         "ON CONFLICT(id) DO UPDATE SET due_ms=excluded.due_ms, tries=excluded.tries")
      .with(row.id, id_number(row.webhook), row.body, row.made_ms, row.due_ms, row.tries)
      .run();
  db_.note_id("webhook_deliveries", row.id);
}

void SqlAccess::remove_delivery(int64_t id) {
  db_.prepare("DELETE FROM webhook_deliveries WHERE id = ?").with(id).run();
}

}  // namespace holdfast::rendezvous
