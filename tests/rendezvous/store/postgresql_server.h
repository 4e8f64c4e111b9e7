// A PostgreSQL server of Debian's for tests: in a folder of its own, reached by a socket in it, run by an unprivileged user,
// gone with the process that made it.
//
// Thread: one at a time.
#pragma once

#include <sys/types.h>

#include <string>

namespace holdfast {

class PostgresqlServer {
 public:
  // `safe`: what is committed survives the machine's end, too, which is slow.
  explicit PostgresqlServer(bool safe = false);
  ~PostgresqlServer();
  PostgresqlServer(const PostgresqlServer&) = delete;
  PostgresqlServer& operator=(const PostgresqlServer&) = delete;

  // The server of this process, made at the first call.
  static PostgresqlServer& shared();

  // postgresql://… of a schema that no test has used yet.
  std::string fresh_address();
  // As psql does; the rows as text.
  std::string query(const std::string& address, const std::string& sql);
  void kill();   // as kill -9 of all its processes does
  void start();  // after the constructor, or kill()

 private:
  void make();

  std::string folder_, programs_;
  bool safe_;
  pid_t server_ = 0;
  int schemas_ = 0;
};

}  // namespace holdfast
