#include "rendezvous/store/sql/retention.h"

#include <fmt/format.h>

#include <string>
#include <vector>

namespace holdfast::rendezvous {
namespace {

constexpr int64_t kJobsAtOnce = 100, kLinesAtOnce = 2'000, kEventsAtOnce = 2'000;
const std::string kWord = "events_dropped";
constexpr int64_t kDayMs = 24 * 3600 * 1000;

}  // namespace

bool SqlRetention::forget(int64_t now_ms) {
  struct Looked {
    int64_t number;
    std::string id;
    bool ended_long_ago;
  };
  std::vector<Looked> jobs;
  {
    auto q = db_.prepare("SELECT number, id, finished_ms FROM jobs WHERE number > ? ORDER BY number LIMIT ?");
    q.with(looked_at_, kJobsAtOnce);
    while (q.step())
      jobs.push_back({q.integer(0), q.text(1), q.integer(2) > 0 && q.integer(2) < now_ms - retention_.days * kDayMs});
  }
  for (const Looked& job : jobs) {
    if (forget_of_job(job.id, job.ended_long_ago)) return true;
    looked_at_ = job.number;
  }
  if (static_cast<int64_t>(jobs.size()) == kJobsAtOnce || cut_events("", retention_.events_per_job) || keep_total())
    return true;
  looked_at_ = 0;
  return false;
}

// True: it has more that is to go.
bool SqlRetention::forget_of_job(const std::string& job, bool ended_long_ago) {
  if (!ended_long_ago) return cut_events(job, retention_.events_per_job);
  return logs_.drop_oldest(job, kLinesAtOnce) > 0 || cut_events(job, retention_.events_per_ended_job);
}

// The newest of those that go stays as word of it, so that whoever reads on from before it learns that there was more.
bool SqlRetention::cut_events(const std::string& job, int64_t keep) {
  int64_t newest_to_go = 0;
  {
    auto q = db_.prepare("SELECT id, kind FROM events WHERE job = ? ORDER BY id DESC LIMIT 1 OFFSET ?");
    if (q.with(job, keep).step() && q.text(1) != kWord) newest_to_go = q.integer(0);
  }
  if (newest_to_go == 0) return false;
  db_.prepare("DELETE FROM events WHERE id IN (SELECT id FROM events WHERE job = ? AND id < ? ORDER BY id LIMIT ?)")
      .with(job, newest_to_go, kEventsAtOnce)
      .run();
  if (db_.changes() == kEventsAtOnce) return true;
  db_.prepare("UPDATE events SET kind = ?, message = ?, worker = '', generation = 0, actor = '' WHERE id = ?")
      .with(kWord, fmt::format("what came before is not kept any more: only the newest {} events are", keep), newest_to_go)
      .run();
  return false;
}

// Of all logs together: those of jobs that ended first go first, then the longest.
bool SqlRetention::keep_total() {
  int64_t bytes = 0;
  std::string job;
  {
    auto q = db_.prepare("SELECT sum(bytes) FROM log_extents");
    if (q.step()) bytes = q.integer(0);
  }
  if (bytes <= retention_.log_bytes) return false;
  {
    auto q = db_.prepare(
        "SELECT e.job FROM log_extents e LEFT JOIN jobs j ON j.id = e.job WHERE e.first <= e.last "
        "ORDER BY coalesce(j.finished_ms, 0) = 0, coalesce(j.finished_ms, 0), e.bytes DESC LIMIT 1");
    if (q.step()) job = q.text(0);
  }
  logs_.drop_oldest(job, kLinesAtOnce);
  return true;
}

}  // namespace holdfast::rendezvous
