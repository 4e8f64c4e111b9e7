#include "tests/rendezvous/store/engines.h"

#include <unistd.h>

#include <filesystem>

#include "rendezvous/store/postgresql/leadership.h"
#include "rendezvous/store/postgresql/store.h"
#include "rendezvous/store/sqlite/store.h"
#include "tests/rendezvous/store/postgresql_server.h"

namespace holdfast::rendezvous {

EngineDatabase::EngineDatabase(Engine engine) : engine_(engine) {
  static int made = 0;
  if (engine == Engine::kPostgresql) {
    address_ = PostgresqlServer::shared().fresh_address();
  } else {
    address_ = testing::TempDir() + "holdfast-store-" + std::to_string(getpid()) + "-" + std::to_string(++made) + ".sqlite";
  }
}

EngineDatabase::~EngineDatabase() {
  if (engine_ == Engine::kPostgresql) return;  // the server's folder goes as a whole
  for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(address_ + suffix);
}

std::unique_ptr<JobStore> EngineDatabase::open(const Retention& retention) {
  if (engine_ == Engine::kSqlite) return open_sqlite_store(address_, retention);
  // The lock goes with this object; the term stays.
  PostgresqlLeadership leadership({.database = address_, .service = "test", .address = "", .tokens = ""});
  if (!leadership.try_to_lead()) throw StoreError("somebody leads in a test's own database");
  return open_postgresql_store({.address = address_, .term = leadership.term()}, retention);
}

}  // namespace holdfast::rendezvous
