// The tables of what workers logged: lines, numbered without a gap within their job's log, and of each log its first and last
// number and its bytes. So whoever reads on after a number knows how many lines are gone before the first that is there.
//
// Readers see the same numbers but for gaps: after a restore from an older copy they go on above what readers may have seen.
// The tables know nothing of it: numbers are translated where they come in and go out (page, before_newest).
// A log keeps the newest lines within the bounds of `Retention`; the oldest go, a stretch of them at a time.
// Thread and transactions: the caller's.
#pragma once

#include <string>
#include <vector>

#include "rendezvous/store/job_store.h"
#include "rendezvous/store/record_limits.h"
#include "rendezvous/store/sql/database.h"

namespace holdfast::rendezvous {

// The first ones as in JobStore.
class SqlLogs {
 public:
  SqlLogs(SqlDatabase& database, const Retention& retention) : db_(database), retention_(retention) {}  // outlives it

  void add(const std::string& job, const std::string& worker, const std::vector<LogLine>& lines);
  LogPage page(const LogQuery& query, int64_t limit);
  int64_t before_newest(const LogQuery& query, int64_t count);

  // Readers' numbers of lines to come are above this one, in every job that there is.
  void skip_to(int64_t number);

  // Drops the oldest lines of a job, at most so many; how many it has left.
  int64_t drop_oldest(const std::string& job, int64_t at_most);

 private:
  struct Extent {
    int64_t first = 1, last = 0, bytes = 0;
    int64_t lines() const { return last - first + 1; }
  };
  Extent extent(const std::string& job);
  void save(const std::string& job, const Extent& extent);
  struct Gap {
    int64_t after = 0, skipped = 0;
  };
  std::vector<Gap> gaps(const std::string& job);
  static int64_t as_read(const std::vector<Gap>& gaps, int64_t number);
  static int64_t as_kept(const std::vector<Gap>& gaps, int64_t read);
  int64_t kept_before_newest(const LogQuery& query, int64_t count);
  int64_t too_many_bytes(const std::string& job, const Extent& extent);
  void drop_up_to(const std::string& job, int64_t number, Extent& extent);

  SqlDatabase& db_;
  const Retention& retention_;
};

}  // namespace holdfast::rendezvous
