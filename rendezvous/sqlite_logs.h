// The tables of what workers logged: lines, numbered without a gap within their job's log, and of each log its first and last
// number and its bytes. So whoever reads on after a number knows how many lines are gone before the first that is there.
//
// A log keeps the newest lines within the bounds of `Retention`; the oldest go, a stretch of them at a time.
// Thread and transactions: the caller's.
#pragma once

#include <string>
#include <vector>

#include "rendezvous/job_store.h"
#include "rendezvous/retention.h"
#include "rendezvous/sqlite_database.h"

namespace holdfast::rendezvous {

// The first ones as in JobStore.
class SqliteLogs {
 public:
  SqliteLogs(SqliteDatabase& database, const Retention& retention) : db_(database), retention_(retention) {}  // outlives it

  void add(const std::string& job, const std::string& worker, const std::vector<LogLine>& lines);
  LogPage page(const LogQuery& query, int64_t limit);
  int64_t before_newest(const LogQuery& query, int64_t count);

  // Drops the oldest lines of a job, at most so many; how many it has left.
  int64_t drop_oldest(const std::string& job, int64_t at_most);

 private:
  struct Extent {
    int64_t first = 1, last = 0, bytes = 0;
    int64_t lines() const { return last - first + 1; }
  };
  Extent extent(const std::string& job);
  void save(const std::string& job, const Extent& extent);
  int64_t too_many_bytes(const std::string& job, const Extent& extent);
  void drop_up_to(const std::string& job, int64_t number, Extent& extent);

  SqliteDatabase& db_;
  const Retention& retention_;
};

}  // namespace holdfast::rendezvous
