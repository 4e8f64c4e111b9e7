#include "rendezvous/store/sqlite/store.h"

#include <fmt/format.h>

#include <utility>

#include "rendezvous/store/sql/sql_store.h"
#include "rendezvous/store/sqlite/database.h"
#include "rendezvous/store/sqlite/files_in_place.h"
#include "rendezvous/store/sqlite/rescue.h"
#include "rendezvous/store/sqlite/schema.h"

namespace holdfast::rendezvous {
namespace {

std::unique_ptr<SqliteDatabase> open_database(const std::string& path) {
  auto database = std::make_unique<SqliteDatabase>(path);
  database->execute("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON");
  migrate(*database);
  return database;
}

class SqliteStore : public SqlStore {
 public:
  SqliteStore(std::unique_ptr<SqliteDatabase> database, const Retention& retention)
      : SqlStore(std::move(database), retention), db_(static_cast<SqliteDatabase&>(this->database())), files_(db_.name()) {
    fold_what_is_behind();
  }
  ~SqliteStore() override;

  void commit() override;
  void check_files() override;

 private:
  void fold_what_is_behind();
  bool take_log_in();

  SqliteDatabase& db_;
  FilesInPlace files_;
  bool lost_ = false;  // and what could be saved was
};

// SQLite's user_version is the schema's under which all jobs were looked at.
void SqliteStore::fold_what_is_behind() {
  int64_t looked_at_all = 0;
  if (auto row = db_.prepare("PRAGMA user_version"); row.step()) looked_at_all = row.integer(0);
  const bool all = looked_at_all < schema_version_known();
  metrics().fold_what_is_behind(all);
  if (all) db_.execute(fmt::format("PRAGMA user_version = {}", schema_version_known()));
}

// After the commit too: a file that lost its name meanwhile has taken it along.
void SqliteStore::commit() {
  check_files();
  SqlStore::commit();
  check_files();
}

void SqliteStore::check_files() {
  const FilesInPlace::Loss loss = files_.loss();
  if (loss == FilesInPlace::Loss::kNone) return;
  const std::string what = files_.what_happened();
  if (loss == FilesInPlace::Loss::kOfLog && take_log_in()) {
    throw StoreError(
        fmt::format("{} while the service ran with it: its rows were put into the database, nothing is lost, and "
                    "the service begins again",
                    what));
  }
  lost_ = true;
  throw StoreError(rescue(db_, what));
}

// False where another process reads just now.
bool SqliteStore::take_log_in() {
  if (db_.in_transaction()) db_.roll_back();
  auto q = db_.prepare("PRAGMA wal_checkpoint(TRUNCATE)");
  return q.step() && q.integer(0) == 0;
}

// Nobody may have written since the file lost its name.
SqliteStore::~SqliteStore() {
  if (!lost_ && files_.loss() == FilesInPlace::Loss::kOfAll) rescue(db_, files_.what_happened());
}

}  // namespace

std::unique_ptr<SqlDatabase> open_sqlite_database(const std::string& path) {
  return open_database(path);
}

std::unique_ptr<JobStore> open_sqlite_store(const std::string& path, const Retention& retention) {
  refuse_lost(path);
  return std::make_unique<SqliteStore>(open_database(path), retention);
}

}  // namespace holdfast::rendezvous
