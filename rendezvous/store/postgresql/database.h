// A connection to a PostgreSQL server, as an SqlDatabase.
//
// A statement without rows is sent ahead, in libpq's pipeline mode, and its outcome is read before the next rows or at the
// commit: a transaction costs about one journey to the server and back. A server that says nothing for `patience`, also because
// the network is cut, is a lost connection; so nobody waits for ever.
// Promises: a commit that returned is durable as far as the server's own settings say (synchronous_commit is on here, whatever
// they say). A commit that threw may be there or not: a service that begins again from
// the database learns it.
// Throws StoreAway where the server cannot be reached now, StoreFull where its disk is full, LostLeadership where the term of a
// transaction is not the database's any more, else StoreError.
// Text is kept as UTF-8, which PostgreSQL insists on: bytes that are none, and NUL, become U+FFFD.
// Thread: one at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/store/sql/database.h"

struct pg_conn;
struct pg_result;

namespace holdfast::rendezvous {

class PostgresqlCursor;

struct PostgresqlConnect {
  std::string address;  // postgresql://USER@HOST,HOST/DATABASE?key=value, or libpq's key=value words
  std::string application_name = "holdfast";
  std::chrono::milliseconds patience{5000};
  // Every transaction insists on it: one that begins under another term of the database fails. None: for whoever only reads.
  std::optional<int64_t> term = std::nullopt;
  // The server refuses every write, and each transaction sees the database as it was at its first statement.
  bool reads_only = false;
};

class PostgresqlDatabase : public SqlDatabase {
 public:
  explicit PostgresqlDatabase(const PostgresqlConnect& connect);
  ~PostgresqlDatabase() override;
  PostgresqlDatabase(const PostgresqlDatabase&) = delete;
  PostgresqlDatabase& operator=(const PostgresqlDatabase&) = delete;

  void execute(const std::string& sql);  // one or several statements without parameters, in one transaction if there is none
  void begin() override;
  void commit() override;
  void confirm() override;
  void roll_back() override;
  bool in_transaction() const override { return in_transaction_; }
  int64_t changes() override;
  std::string bytes_of(const std::string& column) const override;
  std::string as_kept(const std::string& text) const override;
  int64_t last_id(const std::string& table) override;
  void note_id(const std::string& table, int64_t id) override;
  void skip_ids_to(const std::string& table, int64_t id) override;
  const std::string& name() const override { return name_; }

  // For cursors. Statements of a transaction, and their outcomes.
  struct Parameters {
    const std::vector<const char*>& values;
    const std::vector<int>&lengths, &formats;
  };
  void send_prepare(PostgresqlCursor& cursor, const std::string& statement, const std::string& sql,
                    const std::vector<unsigned>& types, const std::string& doing);
  void send_use(PostgresqlCursor& cursor, const std::string& statement, const Parameters& with, bool keeps_rows,
                const std::string& doing);
  void settle();  // reads the outcomes of all that was sent

  int backend() const;  // the process of the server that serves this connection
  // Of transactions under this term and those before: the number of the last one that this connection began.
  int64_t commits() const { return commits_; }

 private:
  struct Sent {
    PostgresqlCursor* cursor;  // none: a word of transactions
    std::string doing;
    bool prepares = false, keeps_rows = false;
  };
  struct Closed {
    void operator()(pg_conn* connection) const;
  };

  SqlCursor& cursor(std::string_view sql) override;
  void word(const std::string& sql);
  void insist_on_term();
  void flush();
  void make_room();
  pg_result* next_result();
  void wait(short events);
  void set_up(bool reads_only);
  [[noreturn]] void lose(const std::string& why);
  [[noreturn]] void fail(const Sent& sent, const pg_result* result);
  void insist_on_connection() const;

  std::string name_;
  std::chrono::milliseconds patience_;
  std::optional<int64_t> term_;
  std::unique_ptr<pg_conn, Closed> connection_;
  std::string lost_;  // why; "": it is there
  bool in_transaction_ = false;
  int64_t changes_ = 0, commits_ = 0;
  std::deque<Sent> sent_;
  std::map<std::string, std::unique_ptr<PostgresqlCursor>, std::less<>> cursors_;
};

}  // namespace holdfast::rendezvous
