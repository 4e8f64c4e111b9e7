// A connection to an SQL database, as the tables of the store see it: statements with parameters, transactions, ids.
//
// The SQL is what SQLite and PostgreSQL both take, and means the same in both: parameters are `?`, or `?1` where one is used
// several times; upserts are ON CONFLICT; there is no function that only one has, but for those that this interface names.
// Promises: a failed statement throws StoreError with the database, the statement and the engine's own words, at the latest
// when its transaction is committed; then nothing of the transaction is kept.
// Thread: one at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace holdfast::rendezvous {

struct Blob {  // bytes that are no text
  std::string bytes;
};

// A statement of an engine, prepared once and used again and again. Parameters and columns are counted from 0.
class SqlCursor {
 public:
  virtual ~SqlCursor() = default;
  virtual void bind(int parameter, int64_t value) = 0;
  virtual void bind(int parameter, const std::optional<double>& value) = 0;
  virtual void bind(int parameter, std::string_view value) = 0;
  virtual void bind(int parameter, const Blob& value) = 0;
  virtual bool step() = 0;   // true: a row is there
  virtual void run() = 0;    // for statements without rows; an engine may keep it until the next step or commit
  virtual void reset() = 0;  // ready for the next use

  // Of the row that is there.
  virtual int64_t integer(int column) const = 0;  // of NULL 0
  virtual std::optional<double> maybe_real(int column) const = 0;
  virtual std::string text(int column) const = 0;  // of a blob its bytes
};

// One use of a statement: bind in order, then run() or step through rows. Resets itself at the end of its life.
class SqlStatement {
 public:
  explicit SqlStatement(SqlCursor& cursor) : cursor_(cursor) {}
  ~SqlStatement() { cursor_.reset(); }
  SqlStatement(const SqlStatement&) = delete;
  SqlStatement& operator=(const SqlStatement&) = delete;

  template <typename... Values>
  SqlStatement& with(const Values&... values) {
    (bind(values), ...);
    return *this;
  }
  bool step() { return cursor_.step(); }
  void run() { cursor_.run(); }

  int64_t integer(int column) const { return cursor_.integer(column); }
  double real(int column) const { return cursor_.maybe_real(column).value_or(0); }
  std::optional<double> maybe_real(int column) const { return cursor_.maybe_real(column); }
  std::string text(int column) const { return cursor_.text(column); }

 private:
  void bind(int64_t value) { cursor_.bind(bound_++, value); }
  void bind(int value) { bind(static_cast<int64_t>(value)); }
  void bind(bool value) { bind(static_cast<int64_t>(value)); }
  void bind(double value) { bind(std::optional(value)); }
  void bind(const std::optional<double>& value) { cursor_.bind(bound_++, value); }
  void bind(const std::string& value) { cursor_.bind(bound_++, std::string_view(value)); }
  void bind(const char* value) { cursor_.bind(bound_++, std::string_view(value)); }
  void bind(const Blob& value) { cursor_.bind(bound_++, value); }

  SqlCursor& cursor_;
  int bound_ = 0;
};

class SqlDatabase {
 public:
  virtual ~SqlDatabase() = default;

  virtual void begin() = 0;
  virtual void commit() = 0;
  virtual void roll_back() = 0;
  virtual bool in_transaction() const = 0;
  virtual void confirm() {}  // JobStore::confirm
  // A statement of that text must not be in use already.
  SqlStatement prepare(std::string_view sql) { return SqlStatement(cursor(sql)); }
  virtual int64_t changes() = 0;  // rows that the last statement without rows has changed

  // SQL for the number of bytes of a column's text.
  virtual std::string bytes_of(const std::string& column) const = 0;
  // The largest id that a table's rows ever had, those that are gone included; 0: it never had one.
  virtual int64_t last_id(const std::string& table) = 0;
  // A row of the table was saved with an id that the caller chose.
  virtual void note_id(const std::string& table, int64_t id) = 0;
  // Ids of rows to come are above this one.
  virtual void skip_ids_to(const std::string& table, int64_t id) = 0;

  // The text that is read where `text` was written.
  virtual std::string as_kept(const std::string& text) const { return text; }

  virtual const std::string& name() const = 0;  // for people: a path, an address

 protected:
  virtual SqlCursor& cursor(std::string_view sql) = 0;
};

}  // namespace holdfast::rendezvous
