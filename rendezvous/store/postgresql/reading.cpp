#include "rendezvous/store/postgresql/reading.h"

#include <fmt/format.h>

#include <utility>

#include "rendezvous/store/postgresql/database.h"
#include "rendezvous/store/postgresql/leadership.h"
#include "rendezvous/store/postgresql/schema.h"
#include "rendezvous/store/sql/sql_store.h"

namespace holdfast::rendezvous {
namespace {

class PostgresqlReading : public StoreReading {
 public:
  explicit PostgresqlReading(std::unique_ptr<PostgresqlDatabase> database)
      : database_(*database), store_(std::move(database), Retention{}) {}

  ReadMoment begin() override {
    database_.begin();
    auto q = database_.prepare("SELECT term, commits, address FROM leadership");
    return q.step() ? ReadMoment{q.integer(0), q.integer(1), q.text(2)} : ReadMoment{};
  }
  void end() override { database_.commit(); }
  JobStore& store() override { return store_; }

 private:
  PostgresqlDatabase& database_;
  SqlStore store_;  // owns the database
};

}  // namespace

std::unique_ptr<StoreReading> open_postgresql_reading(const std::string& address, const std::string& service) {
  auto database = std::make_unique<PostgresqlDatabase>(
      PostgresqlConnect{.address = address, .application_name = name_of_reading(service), .reads_only = true});
  if (const int64_t version = schema_version(*database); version != postgresql_schema_version_known()) {
    throw StoreAway(
        fmt::format("database {} has schema version {}, and this program reads {}: the service that leads is of another "
                    "version of holdfast",
                    database->name(), version, postgresql_schema_version_known()));
  }
  return std::make_unique<PostgresqlReading>(std::move(database));
}

}  // namespace holdfast::rendezvous
