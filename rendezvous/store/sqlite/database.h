// A SQLite connection and its prepared statements, as objects that close themselves.
//
// Every failure throws StoreError with the file, what was being done, and SQLite's own words. One thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "rendezvous/store/sql/database.h"

struct sqlite3;

namespace holdfast::rendezvous {

class SqliteCursor;

class SqliteDatabase : public SqlDatabase {
 public:
  // Creates the file when absent. ":memory:" is a database of its own.
  explicit SqliteDatabase(const std::string& path);
  ~SqliteDatabase() override;
  SqliteDatabase(const SqliteDatabase&) = delete;
  SqliteDatabase& operator=(const SqliteDatabase&) = delete;

  void execute(const std::string& sql);  // one or several statements
  void begin() override { execute("BEGIN IMMEDIATE"); }
  void commit() override { execute("COMMIT"); }
  void roll_back() override { execute("ROLLBACK"); }
  bool in_transaction() const override;
  int64_t changes() override;
  std::string bytes_of(const std::string& column) const override;
  int64_t last_id(const std::string& table) override;
  void note_id(const std::string&, int64_t) override {}  // SQLite does by itself
  void skip_ids_to(const std::string& table, int64_t id) override;
  const std::string& name() const override { return path_; }

 private:
  friend class SqliteCursor;
  SqlCursor& cursor(std::string_view sql) override;
  [[noreturn]] void fail(const std::string& doing) const;

  std::string path_;
  sqlite3* handle_ = nullptr;
  std::map<std::string, std::unique_ptr<SqliteCursor>, std::less<>> cursors_;
};

}  // namespace holdfast::rendezvous
