#include "rendezvous/store/postgresql/store.h"

#include <utility>

#include "rendezvous/store/postgresql/schema.h"
#include "rendezvous/store/sql/sql_store.h"

namespace holdfast::rendezvous {
namespace {

class PostgresqlStore : public SqlStore {
 public:
  PostgresqlStore(std::unique_ptr<PostgresqlDatabase> database, const Retention& retention, std::function<void()> check)
      : SqlStore(std::move(database), retention), check_(std::move(check)) {
    metrics().fold_what_is_behind(false);
  }
  void check_files() override {
    if (check_) check_();
  }

 private:
  const std::function<void()> check_;
};

}  // namespace

std::unique_ptr<JobStore> open_postgresql_store(const PostgresqlConnect& connect, const Retention& retention,
                                                std::function<void()> check) {
  auto database = std::make_unique<PostgresqlDatabase>(connect);
  migrate(*database);
  return std::make_unique<PostgresqlStore>(std::move(database), retention, std::move(check));
}

}  // namespace holdfast::rendezvous
