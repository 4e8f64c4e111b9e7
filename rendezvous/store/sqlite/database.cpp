// SQLite's C interface, wrapped; nothing of jobs here.
#include "rendezvous/store/sqlite/database.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <filesystem>
#include <system_error>

#include "rendezvous/store/job_store.h"

namespace holdfast::rendezvous {

SqliteStatement::~SqliteStatement() {
  sqlite3_reset(handle_);
  sqlite3_clear_bindings(handle_);
}

bool SqliteStatement::step() {
  const int outcome = sqlite3_step(handle_);
  if (outcome == SQLITE_ROW) return true;
  if (outcome != SQLITE_DONE) database_.fail(fmt::format("running \"{}\"", sqlite3_sql(handle_)));
  return false;
}

void SqliteStatement::run() {
  while (step()) {
  }
}

int64_t SqliteStatement::integer(int column) const {
  return sqlite3_column_int64(handle_, column);
}
double SqliteStatement::real(int column) const {
  return sqlite3_column_double(handle_, column);
}

std::optional<double> SqliteStatement::maybe_real(int column) const {
  if (sqlite3_column_type(handle_, column) == SQLITE_NULL) return std::nullopt;
  return real(column);
}

std::string SqliteStatement::text(int column) const {
  const auto* bytes = static_cast<const char*>(sqlite3_column_blob(handle_, column));  // of a text its bytes
  return bytes == nullptr ? "" : std::string(bytes, sqlite3_column_bytes(handle_, column));
}

void SqliteStatement::bind(int64_t value) {
  if (sqlite3_bind_int64(handle_, ++bound_, value) != SQLITE_OK) database_.fail("binding an integer");
}

void SqliteStatement::bind(double value) {
  if (sqlite3_bind_double(handle_, ++bound_, value) != SQLITE_OK) database_.fail("binding a number");
}

void SqliteStatement::bind(const std::optional<double>& value) {
  if (value) return bind(*value);
  if (sqlite3_bind_null(handle_, ++bound_) != SQLITE_OK) database_.fail("binding null");
}

void SqliteStatement::bind(const std::string& value) {
  const int size = static_cast<int>(value.size());
  if (sqlite3_bind_text(handle_, ++bound_, value.data(), size, SQLITE_TRANSIENT) != SQLITE_OK) database_.fail("binding text");
}

void SqliteStatement::bind(const Blob& value) {
  const int size = static_cast<int>(value.bytes.size());
  if (sqlite3_bind_blob(handle_, ++bound_, value.bytes.data(), size, SQLITE_TRANSIENT) != SQLITE_OK)
    database_.fail("binding bytes");
}

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
  for (const auto& [sql, statement] : statements_) sqlite3_finalize(statement);
  sqlite3_close(handle_);
}

void SqliteDatabase::execute(const std::string& sql) {
  if (sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK)
    fail(fmt::format("running \"{}\"", sql.substr(0, 120)));
}

SqliteStatement SqliteDatabase::prepare(std::string_view sql) {
  auto found = statements_.find(sql);
  if (found == statements_.end()) {
    sqlite3_stmt* statement = nullptr;
    if (sqlite3_prepare_v3(handle_, sql.data(), static_cast<int>(sql.size()), SQLITE_PREPARE_PERSISTENT, &statement, nullptr) !=
        SQLITE_OK) {
      fail(fmt::format("preparing \"{}\"", sql));
    }
    found = statements_.emplace(std::string(sql), statement).first;
  }
  return {*this, found->second};
}

int64_t SqliteDatabase::changes() const {
  return sqlite3_changes64(handle_);
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
