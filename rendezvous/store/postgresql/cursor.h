// A statement of a PostgreSQL connection. The server prepares it at its first use, with the types of what is bound then.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/store/postgresql/database.h"
#include "rendezvous/store/sql/database.h"

namespace holdfast::rendezvous {

class PostgresqlCursor : public SqlCursor {
 public:
  // `statement`: its name at the server, which no other of the connection has.
  PostgresqlCursor(PostgresqlDatabase& database, std::string_view sql, std::string statement);
  ~PostgresqlCursor() override;
  PostgresqlCursor(const PostgresqlCursor&) = delete;
  PostgresqlCursor& operator=(const PostgresqlCursor&) = delete;

  void bind(int parameter, int64_t value) override;
  void bind(int parameter, const std::optional<double>& value) override;
  void bind(int parameter, std::string_view value) override;
  void bind(int parameter, const Blob& value) override;
  bool step() override;
  void run() override;
  void reset() override;

  int64_t integer(int column) const override;
  std::optional<double> maybe_real(int column) const override;
  std::string text(int column) const override;

  void take(pg_result* rows);   // which are this object's then
  bool prepared = false;        // at the server
  bool counts_commits = false;  // its row is a number that the connection remembers

 private:
  void send(bool keeps_rows);
  void set(int parameter, std::optional<std::string> value, unsigned type, int format);
  std::string_view value(int column) const;

  PostgresqlDatabase& database_;
  std::string sql_, statement_;
  std::vector<std::optional<std::string>> values_;
  std::vector<unsigned> types_;
  std::vector<int> formats_;
  pg_result* rows_ = nullptr;
  int row_ = -1;
};

}  // namespace holdfast::rendezvous
