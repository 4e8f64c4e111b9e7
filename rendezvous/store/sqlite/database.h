// A SQLite connection and its prepared statements, as objects that close themselves.
//
// Every failure throws StoreError with the file, what was being done, and SQLite's own words. One thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

struct sqlite3;
struct sqlite3_stmt;

namespace holdfast::rendezvous {

class SqliteDatabase;

struct Blob {  // bytes that are no text
  std::string bytes;
};

// One use of a statement: bind in order, then run() or step through rows. Resets itself at the end of its life.
class SqliteStatement {
 public:
  SqliteStatement(SqliteDatabase& database, sqlite3_stmt* handle) : database_(database), handle_(handle) {}
  ~SqliteStatement();
  SqliteStatement(const SqliteStatement&) = delete;
  SqliteStatement& operator=(const SqliteStatement&) = delete;

  template <typename... Values>
  SqliteStatement& with(const Values&... values) {
    (bind(values), ...);
    return *this;
  }
  bool step();  // true: a row is there
  void run();   // for statements without rows

  int64_t integer(int column) const;
  double real(int column) const;
  std::optional<double> maybe_real(int column) const;
  std::string text(int column) const;  // of a blob its bytes

 private:
  void bind(int64_t value);
  void bind(int value) { bind(static_cast<int64_t>(value)); }
  void bind(bool value) { bind(static_cast<int64_t>(value)); }
  void bind(double value);
  void bind(const std::optional<double>& value);
  void bind(const std::string& value);
  void bind(const Blob& value);
  void bind(const char* value) { bind(std::string(value)); }

  SqliteDatabase& database_;
  sqlite3_stmt* handle_;
  int bound_ = 0;
};

class SqliteDatabase {
 public:
  // Creates the file when absent. ":memory:" is a database of its own.
  explicit SqliteDatabase(const std::string& path);
  ~SqliteDatabase();
  SqliteDatabase(const SqliteDatabase&) = delete;
  SqliteDatabase& operator=(const SqliteDatabase&) = delete;

  void execute(const std::string& sql);  // one or several statements
  // Prepared once per text and kept. The text must not be in use already.
  SqliteStatement prepare(std::string_view sql);
  int64_t changes() const;
  bool in_transaction() const;
  const std::string& path() const { return path_; }

 private:
  friend class SqliteStatement;
  [[noreturn]] void fail(const std::string& doing) const;

  std::string path_;
  sqlite3* handle_ = nullptr;
  std::map<std::string, sqlite3_stmt*, std::less<>> statements_;
};

}  // namespace holdfast::rendezvous
