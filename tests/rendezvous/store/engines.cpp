#include "tests/rendezvous/store/engines.h"

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "rendezvous/store/postgresql/leadership.h"
#include "rendezvous/store/postgresql/store.h"
#include "rendezvous/store/sqlite/store.h"
#include "tests/rendezvous/store/postgresql_server.h"

namespace holdfast::rendezvous {
namespace {

constexpr std::chrono::seconds kPatience{60};

}  // namespace

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
  // The lock goes with this object, once the server notices the end of its connection; the term stays.
  PostgresqlLeadership leadership(
      {.database = address_, .service = "test", .address = "", .tokens = "", .patience = kPatience});
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!leadership.try_to_lead()) {
    if (std::chrono::steady_clock::now() > deadline) throw StoreError("somebody leads in a test's own database");
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return open_postgresql_store({.address = address_, .term = leadership.term()}, retention);
}

}  // namespace holdfast::rendezvous
