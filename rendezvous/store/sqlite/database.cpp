// SQLite's C interface, wrapped; nothing of jobs here.
#include "rendezvous/store/sqlite/database.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <filesystem>
#include <optional>
#include <system_error>

#include "rendezvous/store/job_store.h"

namespace holdfast::rendezvous {

class SqliteCursor : public SqlCursor {
 public:
  SqliteCursor(SqliteDatabase& database, sqlite3_stmt* handle) : database_(database), handle_(handle) {}
  ~SqliteCursor() override { sqlite3_finalize(handle_); }

  void bind(int parameter, int64_t value) override {
    if (sqlite3_bind_int64(handle_, parameter + 1, value) != SQLITE_OK) database_.fail("binding an integer");
  }
  void bind(int parameter, const std::optional<double>& value) override {
    const int outcome = value ? sqlite3_bind_double(handle_, parameter + 1, *value) : sqlite3_bind_null(handle_, parameter + 1);
    if (outcome != SQLITE_OK) database_.fail("binding a number");
  }
  void bind(int parameter, std::string_view value) override {
    const int size = static_cast<int>(value.size());
    if (sqlite3_bind_text(handle_, parameter + 1, value.data(), size, SQLITE_TRANSIENT) != SQLITE_OK)
      database_.fail("binding text");
  }
  void bind(int parameter, const Blob& value) override {
    const int size = static_cast<int>(value.bytes.size());
    if (sqlite3_bind_blob(handle_, parameter + 1, value.bytes.data(), size, SQLITE_TRANSIENT) != SQLITE_OK)
      database_.fail("binding bytes");
  }

  bool step() override {
    const int outcome = sqlite3_step(handle_);
    if (outcome == SQLITE_ROW) return true;
    if (outcome != SQLITE_DONE) database_.fail(fmt::format("running \"{}\"", sqlite3_sql(handle_)));
    return false;
  }
  void run() override {
    while (step()) {
    }
  }
  void reset() override {
    sqlite3_reset(handle_);
    sqlite3_clear_bindings(handle_);
  }

  int64_t integer(int column) const override { return sqlite3_column_int64(handle_, column); }
  std::optional<double> maybe_real(int column) const override {
    if (sqlite3_column_type(handle_, column) == SQLITE_NULL) return std::nullopt;
    return sqlite3_column_double(handle_, column);
  }
  std::string text(int column) const override {
    const auto* bytes = static_cast<const char*>(sqlite3_column_blob(handle_, column));  // of a text its bytes
    return bytes == nullptr ? "" : std::string(bytes, sqlite3_column_bytes(handle_, column));
  }

 private:
  SqliteDatabase& database_;
  sqlite3_stmt* handle_;
};

SqliteDatabase::SqliteDatabase(const std::string& path) : path_(path) {
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
  if (sqlite3_open_v2(path.c_str(), &handle_, flags, nullptr) != SQLITE_OK) {
    std::string why = handle_ != nullptr ? sqlite3_errmsg(handle_) : "out of memory";
    sqlite3_close(handle_);
    std::error_code ignored;
    if (std::filesystem::is_directory(path, ignored))
      why = "a folder has its name: move it away, or name another data directory";
    throw StoreError(fmt::format("cannot open the database {}: {}", path, why));
  }
  sqlite3_busy_timeout(handle_, 5000);
}

SqliteDatabase::~SqliteDatabase() {
  cursors_.clear();
  sqlite3_close(handle_);
}

void SqliteDatabase::execute(const std::string& sql) {
  if (sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK)
    fail(fmt::format("running \"{}\"", sql.substr(0, 120)));
}

SqlCursor& SqliteDatabase::cursor(std::string_view sql) {
  auto found = cursors_.find(sql);
  if (found == cursors_.end()) {
    sqlite3_stmt* statement = nullptr;
    if (sqlite3_prepare_v3(handle_, sql.data(), static_cast<int>(sql.size()), SQLITE_PREPARE_PERSISTENT, &statement, nullptr) !=
        SQLITE_OK) {
      fail(fmt::format("preparing \"{}\"", sql));
    }
    found = cursors_.emplace(std::string(sql), std::make_unique<SqliteCursor>(*this, statement)).first;
  }
  return *found->second;
}

int64_t SqliteDatabase::changes() {
  return sqlite3_changes64(handle_);
}

std::string SqliteDatabase::bytes_of(const std::string& column) const {
  return fmt::format("length(CAST({} AS BLOB))", column);
}

int64_t SqliteDatabase::last_id(const std::string& table) {
  auto q = prepare("SELECT seq FROM sqlite_sequence WHERE name = ?");
  return q.with(table).step() ? q.integer(0) : 0;
}

void SqliteDatabase::skip_ids_to(const std::string& table, int64_t id) {
  prepare(
      "INSERT INTO sqlite_sequence (name, seq) SELECT ?1, 0 WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = ?1)")
      .with(table)
      .run();
  prepare("UPDATE sqlite_sequence SET seq = max(seq, ?) WHERE name = ?").with(id, table).run();
}

bool SqliteDatabase::in_transaction() const {
  return sqlite3_get_autocommit(handle_) == 0;
}

void SqliteDatabase::fail(const std::string& doing) const {
  const int code = sqlite3_errcode(handle_);
  if ((code & 0xff) == SQLITE_FULL)
    throw StoreFull(fmt::format("database {}: {} failed: {}", path_, doing, sqlite3_errmsg(handle_)));
  const bool damaged = code == SQLITE_NOTADB || code == SQLITE_CORRUPT;
  throw StoreError(fmt::format("database {}: {} failed: {}{}", path_, doing, sqlite3_errmsg(handle_),
                               damaged
                                   ? ". The file is damaged: put a copy of it back, with its -wal and -shm removed. Without "
                                     "one, move it away and submit the jobs anew with --resume_from: checkpoints are not in it"
                                   : ""));
}

}  // namespace holdfast::rendezvous
