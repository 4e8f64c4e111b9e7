#include "rendezvous/store/sql/logs.h"

#include <fmt/format.h>

#include <algorithm>

#include "rendezvous/store/sql/upsert.h"
#include "rendezvous/text/plural.h"

namespace holdfast::rendezvous {
namespace {

// So many lines are looked at for one page: a filter that few pass makes pages short, and nobody wait. And for the newest ones,
// which nobody asks for again and again.
constexpr int64_t kLookedAtMost = 5'000, kNewestLookedAtMost = 20'000;
constexpr int64_t kLinesDroppedAtOnce = 1'000, kBytesDroppedAtOnce = 1 << 20;

constexpr const char* kPasses = "AND (?3 = '' OR worker = ?3) AND (?4 = '' OR ?4 LIKE '% ' || level || ' %') ";

}  // namespace

SqlLogs::Extent SqlLogs::extent(const std::string& job) {
  auto q = db_.prepare("SELECT first, last, bytes FROM log_extents WHERE job = ?");
  return q.with(job).step() ? Extent{q.integer(0), q.integer(1), q.integer(2)} : Extent{};
}

void SqlLogs::save(const std::string& job, const Extent& extent) {
  static const std::string kUpsert = upsert("log_extents", {"job"}, {"first", "last", "bytes"});
  db_.prepare(kUpsert).with(job, extent.first, extent.last, extent.bytes).run();
}

void SqlLogs::add(const std::string& job, const std::string& worker, const std::vector<LogLine>& lines) {
  Extent now = extent(job);
  for (const LogLine& line : lines) {
    db_.prepare("INSERT INTO log_lines (job, number, worker, time_ms, level, text) VALUES (?,?,?,?,?,?)")
        .with(job, ++now.last, worker, line.time_ms, line.level, line.text)
        .run();
    now.bytes += static_cast<int64_t>(line.text.size());
  }
  if (now.lines() >= retention_.log_lines_per_job + kLinesDroppedAtOnce)
    drop_up_to(job, now.last - retention_.log_lines_per_job, now);
  if (now.bytes > retention_.log_bytes_per_job) drop_up_to(job, too_many_bytes(job, now), now);
  save(job, now);
}

// The number of the line up to which lines are to go, for their bytes; the last line stays, whatever it has.
int64_t SqlLogs::too_many_bytes(const std::string& job, const Extent& extent) {
  const int64_t room = std::min(kBytesDroppedAtOnce, retention_.log_bytes_per_job / 16);
  int64_t spare = extent.bytes - retention_.log_bytes_per_job + room, to = extent.first - 1;
  auto q = db_.prepare(fmt::format("SELECT number, {} FROM log_lines WHERE job = ? ORDER BY number", db_.bytes_of("text")));
  for (q.with(job); spare > 0 && q.step() && q.integer(0) < extent.last; spare -= q.integer(1)) to = q.integer(0);
  return to;
}

void SqlLogs::drop_up_to(const std::string& job, int64_t number, Extent& extent) {
  {
    auto q = db_.prepare(fmt::format("SELECT sum({}) FROM log_lines WHERE job = ? AND number <= ?", db_.bytes_of("text")));
    if (q.with(job, number).step()) extent.bytes -= q.integer(0);
  }
  db_.prepare("DELETE FROM log_lines WHERE job = ? AND number <= ?").with(job, number).run();
  extent.first = number + 1;
}

int64_t SqlLogs::drop_oldest(const std::string& job, int64_t at_most) {
  Extent now = extent(job);
  if (now.lines() == 0) return 0;
  drop_up_to(job, std::min(now.last, now.first + at_most - 1), now);
  save(job, now);
  return now.lines();
}

void SqlLogs::skip_to(int64_t number) {
  db_.prepare(
         "INSERT INTO log_gaps (job, after, skipped) SELECT job, after, ? - after - skipped FROM (SELECT j.id AS job, "
         "coalesce(e.last, 0) AS after, coalesce((SELECT sum(g.skipped) FROM log_gaps g WHERE g.job = j.id), 0) AS skipped "
         "FROM jobs j LEFT JOIN log_extents e ON e.job = j.id) AS ends WHERE after + skipped < ? "
         "ON CONFLICT (job, after) DO UPDATE SET skipped = log_gaps.skipped + excluded.skipped")
      .with(number, number)
      .run();
}

std::vector<SqlLogs::Gap> SqlLogs::gaps(const std::string& job) {
  std::vector<Gap> found;
  auto q = db_.prepare("SELECT after, skipped FROM log_gaps WHERE job = ? ORDER BY after");
  for (q.with(job); q.step();) found.push_back({q.integer(0), q.integer(1)});
  return found;
}

int64_t SqlLogs::as_read(const std::vector<Gap>& gaps, int64_t number) {
  int64_t read = number;
  for (const Gap& gap : gaps) read += number > gap.after ? gap.skipped : 0;
  return read;
}

// Of a number within a gap: the last line before it.
int64_t SqlLogs::as_kept(const std::vector<Gap>& gaps, int64_t read) {
  int64_t number = read;
  for (const Gap& gap : gaps) {
    if (number > gap.after) number = std::max(gap.after, number - gap.skipped);
  }
  return number;
}

LogPage SqlLogs::page(const LogQuery& query, int64_t limit) {
  const Extent all = extent(query.job);
  const std::vector<Gap> gaps = this->gaps(query.job);
  LogPage page;
  // A number beyond the last is of a log that was longer: the database was replaced by an older copy, and not by a restore.
  int64_t after = std::min(as_kept(gaps, query.after), all.last);
  const int64_t dropped = std::max<int64_t>(all.first - 1 - after, 0);
  after += dropped;
  const int64_t to = std::min(all.last, after + kLookedAtMost);
  auto q = db_.prepare(fmt::format(
      "SELECT number, worker, time_ms, level, text FROM log_lines WHERE job = ?1 AND number > ?2 {}AND number <= ?5 "
      "ORDER BY number LIMIT ?6",
      kPasses));
  q.with(query.job, after, query.worker, query.levels, to, limit);
  while (q.step()) page.rows.push_back({q.integer(0), query.job, q.text(1), {q.integer(2), q.text(3), q.text(4)}, 0});
  page.read_to = static_cast<int64_t>(page.rows.size()) == limit ? page.rows.back().id : to;
  page.looked_at = std::max<int64_t>(page.read_to - after, 0);
  page.more = page.read_to < all.last;
  if (dropped > 0) {
    LogRow word{all.first - 1, query.job, "", {page.rows.empty() ? 0 : page.rows[0].line.time_ms, "warning", ""}, dropped};
    word.line.text = fmt::format("{} {} not kept any more (holdfast serve --log_lines_per_job, --keep_logs_days)",
                                 counted(dropped, "older line"), dropped == 1 ? "is" : "are");
    page.rows.insert(page.rows.begin(), std::move(word));
  }
  for (LogRow& row : page.rows) row.id = as_read(gaps, row.id);
  page.read_to = as_read(gaps, page.read_to);
  return page;
}

int64_t SqlLogs::before_newest(const LogQuery& query, int64_t count) {
  return as_read(gaps(query.job), kept_before_newest(query, count));
}

int64_t SqlLogs::kept_before_newest(const LogQuery& query, int64_t count) {
  const Extent all = extent(query.job);
  const int64_t oldest = std::max(all.first - 1, all.last - kNewestLookedAtMost);
  if (query.worker.empty() && query.levels.empty()) return std::max(oldest, all.last - count);
  auto q = db_.prepare(fmt::format(
      "SELECT number FROM log_lines WHERE job = ?1 AND number > ?2 {}ORDER BY number DESC LIMIT 1 OFFSET ?5", kPasses));
  return q.with(query.job, oldest, query.worker, query.levels, count - 1).step() ? q.integer(0) - 1 : oldest;
}

}  // namespace holdfast::rendezvous
