// Records that go with time: logs of jobs that ended long ago, events beyond what is kept of a job, and logs beyond the bound
// of all.
//
// Goes round all jobs, a few at each call, and rests after each round. Promises: a call takes some milliseconds at most; the
// newest events of every job stay.
// Thread and transactions: the caller's.
#pragma once

#include <string>

#include "rendezvous/store/record_limits.h"
#include "rendezvous/store/sql/database.h"
#include "rendezvous/store/sql/logs.h"

namespace holdfast::rendezvous {

class SqlRetention {
 public:
  // All outlive it.
  SqlRetention(SqlDatabase& database, const Retention& retention, SqlLogs& logs)
      : db_(database), retention_(retention), logs_(logs) {}

  bool forget(int64_t now_ms);  // as JobStore::forget_old

 private:
  bool forget_of_job(const std::string& job, bool ended_long_ago);
  bool cut_events(const std::string& job, int64_t keep);
  bool keep_total();

  SqlDatabase& db_;
  const Retention& retention_;
  SqlLogs& logs_;
  int64_t looked_at_ = 0;  // the number of the last job of this round
};

}  // namespace holdfast::rendezvous
