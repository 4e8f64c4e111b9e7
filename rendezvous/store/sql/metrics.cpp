#include "rendezvous/store/sql/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>

#include "rendezvous/store/curve.h"
#include "rendezvous/store/sql/upsert.h"
#include "rendezvous/store/stored_json.h"
#include "rendezvous/text/hex.h"

namespace holdfast::rendezvous {
namespace {

constexpr int kLevels = 8;                      // the highest has points of 65,536 steps
constexpr int64_t kParts = 4;                   // of a point, in the level below
constexpr int64_t kFoldedAtMost = 4096;         // points of a level, in one go
constexpr int64_t kRowsDroppedAtMost = 16'384;  // in one go
constexpr int64_t kDigestBytes = 8, kDigestsPerRow = 256;
static_assert(kStepRowsKept > 2 * kCurvePointsMax && kPointsKept > 2 * kCurvePointsMax && kFoldedAtOnce % kDigestsPerRow == 0);

int64_t width(int level) {
  return int64_t{1} << (2 * level);
}
int64_t whole(int64_t steps, int64_t of) {
  return steps / of * of;
}

// 16 hex digits as 8 bytes; nothing for any other text.
std::optional<std::array<char, kDigestBytes>> packed(const std::string& digest) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(digest.data(), digest.data() + digest.size(), value, 16);
  if (digest.size() != 2 * kDigestBytes || error != std::errc() || end != digest.data() + digest.size()) return std::nullopt;
  std::array<char, kDigestBytes> bytes{};
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(value >> (56 - 8 * i));
  return bytes;
}

// A stretch of steps without a gap, of one generation and one row.
struct DigestRow {
  int64_t first_step = 0, generation = 0;
  std::string digests;
  int64_t end() const { return first_step + static_cast<int64_t>(digests.size()) / kDigestBytes; }
};

}  // namespace

// --- rows

int64_t SqlMetrics::newest_row(const std::string& job) {
  auto q = db_.prepare("SELECT max(step) FROM steps WHERE job = ?");
  return q.with(job).step() ? q.integer(0) : 0;
}

// How many members a generation has, as far as it is known here.
int64_t SqlMetrics::world_size_of(const std::string& job, int64_t generation) {
  auto q = db_.prepare("SELECT members FROM generations WHERE job = ? AND number = ?");
  return q.with(job, generation).step() ? static_cast<int64_t>(nlohmann::json::parse(q.text(0)).size()) : 0;
}

void SqlMetrics::insert(const std::string& job, const StepRow& row) {
  const StepPoint& p = row.point;
  const int64_t world_size = row.world_size > 0 ? row.world_size : world_size_of(job, row.generation);
  db_.prepare(
         "INSERT INTO steps (job, step, generation, world_size, time_ms, loss, gradient_norm, learning_rate, step_s, "
         "communication_s, tokens, data_digest, validation_loss) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)")
      .with(job, p.step, row.generation, world_size, row.time_ms, stored_number(p.loss), stored_number(p.gradient_norm))
      .with(stored_number(p.learning_rate), stored_number(p.step_s), stored_number(p.communication_s), p.tokens,
            p.tokens_digest)
      .with(p.validation_loss ? std::optional(stored_number(*p.validation_loss)) : std::nullopt)
      .run();
}

// The steps from `first` to `last` that are rows.
std::set<int64_t> SqlMetrics::rows_there(const std::string& job, int64_t first, int64_t last) {
  std::set<int64_t> there;
  auto q = db_.prepare("SELECT step FROM steps WHERE job = ? AND step BETWEEN ? AND ?");
  for (q.with(job, first, last); q.step();) there.insert(q.integer(0));
  return there;
}

void SqlMetrics::add(const std::string& job, const std::vector<StepRow>& rows) {
  if (rows.empty()) return;
  const int64_t before = newest_row(job), folded = folded_to(job);
  std::set<int64_t> there;
  if (rows.front().point.step <= before) there = rows_there(job, rows.front().point.step, rows.back().point.step);
  int64_t newest = before;
  for (const StepRow& row : rows) {
    const int64_t step = row.point.step;
    if (step <= folded || !there.insert(step).second) continue;
    insert(job, row);
    if (step <= before) unfold(job, step);  // told late: points that stand for its stretch lack it
    newest = std::max(newest, step);
  }
  if (newest / kFoldedAtOnce == before / kFoldedAtOnce) return;
  if (!fold(job, newest)) drop_old(job, newest);
}

std::vector<StepRow> SqlMetrics::rows(const std::string& job, int64_t after, int64_t limit) {
  std::vector<StepRow> rows;
  auto q = db_.prepare(
      "SELECT id, time_ms, generation, world_size, step, loss, gradient_norm, learning_rate, step_s, communication_s, tokens, "
      "data_digest, validation_loss FROM steps WHERE job = ? AND id > ? ORDER BY id LIMIT ?");
  q.with(job, after, limit);
  while (q.step()) {
    StepRow& row = rows.emplace_back();
    row.id = q.integer(0);
    row.time_ms = q.integer(1);
    row.job = job;
    row.generation = q.integer(2);
    row.world_size = q.integer(3);
    StepPoint& p = row.point;
    p.step = q.integer(4);
    int column = 5;
    for (double* value : {&p.loss, &p.gradient_norm, &p.learning_rate, &p.step_s, &p.communication_s})
      *value = number_from_stored(q.real(column++));
    p.tokens = q.integer(10);
    p.tokens_digest = q.text(11);
    p.refused = !std::isfinite(p.gradient_norm);
    if (const auto validation_loss = q.maybe_real(12)) p.validation_loss = number_from_stored(*validation_loss);
  }
  return rows;
}

void SqlMetrics::void_steps(const std::string& job, int64_t first) {
  db_.prepare("DELETE FROM steps WHERE job = ? AND step >= ?").with(job, first).run();
  db_.prepare("DELETE FROM step_digests WHERE job = ? AND first_step >= ?").with(job, first).run();
  db_.prepare(
         "UPDATE step_digests SET digests = substr(digests, 1, CAST(?2 * (?3 - first_step) AS INTEGER)) "
         "WHERE job = ?1 AND first_step < ?3 AND first_step > ?3 - ?4")
      .with(job, kDigestBytes, first, kDigestsPerRow)
      .run();
  unfold(job, first);
}

// --- curves

// The points of a level (level 0: rows) that begin above `after` and end at `to` or before.
std::vector<CurvePoint> SqlMetrics::points(const std::string& job, int level, int64_t after, int64_t to) {
  std::vector<CurvePoint> found;
  auto q = db_.prepare(
      level == 0
          ? "SELECT step, step, 1, time_ms, generation, world_size, loss, loss, loss, 0, gradient_norm, 0, validation_loss, "
            "learning_rate, tokens, step_s, communication_s FROM steps WHERE job = ? AND ? = 0 AND step > ? AND step <= ? "
            "ORDER BY step"
          : "SELECT first_step, last_step, steps, time_ms, generation, world_size, loss, loss_min, loss_max, loss_steps, "
            "gradient_norm, gradient_steps, validation_loss, learning_rate, tokens, step_s, communication_s FROM curves "
            "WHERE job = ? AND level = ? AND first_step > ? AND last_step <= ? ORDER BY first_step");
  q.with(job, level, after, to);
  while (q.step()) {
    CurvePoint& p = found.emplace_back();
    int column = 0;
    for (int64_t* value : {&p.first_step, &p.last_step, &p.steps, &p.time_ms, &p.generation, &p.world_size})
      *value = q.integer(column++);
    for (double* value : {&p.loss, &p.loss_min, &p.loss_max}) *value = number_from_stored(q.real(column++));
    p.loss_steps = level == 0 ? (std::isfinite(p.loss) ? 1 : 0) : q.integer(9);
    p.gradient_norm = number_from_stored(q.real(10));
    p.gradient_steps = level == 0 ? (std::isfinite(p.gradient_norm) ? 1 : 0) : q.integer(11);
    if (const auto validation_loss = q.maybe_real(12)) p.validation_loss = number_from_stored(*validation_loss);
    p.learning_rate = number_from_stored(q.real(13));
    p.tokens = q.integer(14);
    p.step_s = number_from_stored(q.real(15));
    p.communication_s = number_from_stored(q.real(16));
  }
  return found;
}

void SqlMetrics::save_point(const std::string& job, int level, const CurvePoint& p) {
  static const std::string kUpsert =
      upsert("curves", {"job", "level", "first_step"},
             {"last_step", "steps", "time_ms", "generation", "world_size", "loss", "loss_min", "loss_max", "loss_steps",
              "gradient_norm", "gradient_steps", "validation_loss", "learning_rate", "tokens", "step_s", "communication_s"});
  db_.prepare(kUpsert)
      .with(job, level, p.first_step, p.last_step, p.steps, p.time_ms, p.generation, p.world_size, stored_number(p.loss))
      .with(stored_number(p.loss_min), stored_number(p.loss_max), p.loss_steps, stored_number(p.gradient_norm))
      .with(p.gradient_steps, p.validation_loss ? std::optional(stored_number(*p.validation_loss)) : std::nullopt)
      .with(stored_number(p.learning_rate), p.tokens, stored_number(p.step_s), stored_number(p.communication_s))
      .run();
}

// The last step that points of a level stand for; 0: there are none.
int64_t SqlMetrics::level_end(const std::string& job, int level) {
  auto q = db_.prepare("SELECT last_step FROM curves WHERE job = ? AND level = ? ORDER BY first_step DESC LIMIT 1");
  return q.with(job, level).step() ? q.integer(0) : 0;
}

// Where the points of a level (level 0: rows) go on after a step; 0: there are none after it.
int64_t SqlMetrics::next_in_level(const std::string& job, int level, int64_t after) {
  auto q = db_.prepare(level == 0 ? "SELECT min(step) FROM steps WHERE job = ? AND ? = 0 AND step > ?"
                                  : "SELECT min(first_step) FROM curves WHERE job = ? AND level = ? AND first_step > ?");
  return q.with(job, level, after).step() ? q.integer(0) : 0;
}

// Of the level below all is there up to `newest`. How far this level has all then: less than it could where that is too much
// for one go.
int64_t SqlMetrics::fold_level(const std::string& job, int level, int64_t newest) {
  // Its sources may go on far beyond where it ended: a job may have steps that the service was never told of.
  const int64_t done = level_end(job, level), next = next_in_level(job, level - 1, done);
  const int64_t all = whole(newest, width(level));
  if (next == 0 || next > all) return all;
  const int64_t to = std::min(all, whole(next - 1, width(level)) + kFoldedAtMost * width(level));
  std::vector<CurvePoint> made;
  int64_t stretch = -1;
  for (const CurvePoint& part : points(job, level - 1, done, to)) {
    const int64_t here = (part.first_step - 1) / width(level);
    if (here == stretch) {
      join(made.back(), part);
    } else {
      made.push_back(part);
    }
    stretch = here;
  }
  for (const CurvePoint& point : made) save_point(job, level, point);
  return to;
}

// True: not all in one go.
bool SqlMetrics::fold(const std::string& job, int64_t newest) {
  bool more = false;
  for (int level = 1; level <= kLevels && width(level) <= newest; ++level) {
    const int64_t complete = fold_level(job, level, newest);
    more |= complete < whole(newest, width(level));
    newest = complete;
  }
  return more;
}

// Whether a point that begins there can be made again: what it was made of may itself be made again, from rows in the end.
bool SqlMetrics::has_parts(const std::string& job, int level, int64_t first_step) {
  while (--level >= 0) {
    auto q = db_.prepare(level == 0 ? "SELECT 1 FROM steps WHERE job = ? AND ? = 0 AND step = ?"
                                    : "SELECT 1 FROM curves WHERE job = ? AND level = ? AND first_step = ?");
    if (q.with(job, level, first_step).step()) return true;
  }
  return false;
}

// No point stands for a step from `first` on any more.
void SqlMetrics::unfold(const std::string& job, int64_t first) {
  for (int level = 1; level <= kLevels; ++level) {
    db_.prepare("DELETE FROM curves WHERE job = ? AND level = ? AND first_step >= ?").with(job, level, first).run();
    int64_t cut = 0;
    {
      auto q = db_.prepare(
          "SELECT first_step, last_step FROM curves WHERE job = ? AND level = ? AND first_step < ? ORDER BY first_step DESC "
          "LIMIT 1");
      if (q.with(job, level, first).step() && q.integer(1) >= first) cut = q.integer(0);
    }
    if (cut == 0) continue;
    if (has_parts(job, level, cut)) {
      db_.prepare("DELETE FROM curves WHERE job = ? AND level = ? AND first_step = ?").with(job, level, cut).run();
    } else {
      db_.prepare(
             "UPDATE curves SET last_step = ?3 - 1, "
             "steps = CASE WHEN steps < ?3 - first_step THEN steps ELSE ?3 - first_step END WHERE job = ?1 AND level = ?2 AND "
             "first_step = ?4")
          .with(job, level, first, cut)
          .run();
    }
  }
}

std::vector<CurvePoint> SqlMetrics::curve(const std::string& job, int64_t at_most) {
  int64_t first = next_in_level(job, 0, 0), last = newest_row(job);
  if (first == 0) first = INT64_MAX;
  for (int level = kLevels; level > 0; --level) {
    auto q = db_.prepare("SELECT first_step FROM curves WHERE job = ? AND level = ? ORDER BY first_step LIMIT 1");
    if (!q.with(job, level).step()) continue;
    first = std::min(first, q.integer(0));
    break;  // of the highest level nothing was dropped
  }
  for (int level = 1; level <= kLevels && last == 0; ++level) last = level_end(job, level);  // no rows: it went back far
  if (last == 0) return {};
  int level = 0;
  while (level < kLevels && (last - first + 1) / width(level) > 2 * at_most) ++level;
  std::vector<CurvePoint> all;
  for (; level >= 0; --level) {  // steps too young for a level are in the levels below
    const auto younger = points(job, level, all.empty() ? 0 : all.back().last_step, INT64_MAX);
    all.insert(all.end(), younger.begin(), younger.end());
  }
  return thinned(all, at_most);
}

// --- digests

int64_t SqlMetrics::folded_to(const std::string& job) {
  auto q = db_.prepare("SELECT first_step, length(digests) FROM step_digests WHERE job = ? ORDER BY first_step DESC LIMIT 1");
  return q.with(job).step() ? q.integer(0) + q.integer(1) / kDigestBytes - 1 : 0;
}

int64_t SqlMetrics::newest_id(const std::string& job) {
  auto q = db_.prepare("SELECT id FROM steps WHERE job = ? ORDER BY id DESC LIMIT 1");
  return q.with(job).step() ? q.integer(0) : 0;
}

void SqlMetrics::pack_digests(const std::string& job, int64_t to) {
  std::vector<DigestRow> rows;
  {
    auto q = db_.prepare("SELECT step, generation, data_digest FROM steps WHERE job = ? AND step <= ? ORDER BY step");
    q.with(job, to);
    while (q.step()) {
      const int64_t step = q.integer(0), generation = q.integer(1);
      const auto digest = packed(q.text(2));
      if (!digest) continue;
      const bool goes_on = !rows.empty() && rows.back().end() == step && rows.back().generation == generation &&
                           (step - 1) % kDigestsPerRow != 0;
      if (!goes_on) rows.push_back({step, generation, {}});
      rows.back().digests.append(digest->begin(), digest->end());
    }
  }
  for (const DigestRow& row : rows) {
    static const std::string kUpsert = upsert("step_digests", {"job", "first_step"}, {"generation", "digests"});
    db_.prepare(kUpsert).with(job, row.first_step, row.generation, Blob{row.digests}).run();
  }
}

// Of rows only those that points stand for. True: there is more to drop.
bool SqlMetrics::drop_old(const std::string& job, int64_t newest) {
  for (int level = 1; level <= kLevels && width(level) * kPointsKept < newest; ++level) {
    db_.prepare("DELETE FROM curves WHERE job = ? AND level = ? AND first_step <= ?")
        .with(job, level, newest - kPointsKept * width(level))
        .run();
  }
  const int64_t oldest = next_in_level(job, 0, 0), due = whole(newest - kStepRowsKept, kDigestsPerRow);
  const int64_t to = std::min({due, whole(oldest + kRowsDroppedAtMost, kDigestsPerRow), level_end(job, 1)});
  if (oldest == 0 || to < oldest) return false;
  pack_digests(job, to);
  db_.prepare("DELETE FROM steps WHERE job = ? AND step <= ?").with(job, to).run();
  return to < due;
}

std::vector<StepDigest> SqlMetrics::digests(const std::string& job, const StepRange& range) {
  std::vector<StepDigest> found;
  {
    auto q = db_.prepare(
        "SELECT first_step, generation, digests FROM step_digests WHERE job = ? AND first_step > ? AND first_step <= ? "
        "ORDER BY first_step");
    q.with(job, range.first - kDigestsPerRow, range.last);
    while (q.step()) {
      const std::string bytes = q.text(2);
      int64_t step = q.integer(0);
      for (size_t at = 0; at < bytes.size(); at += kDigestBytes, ++step) {
        if (step >= range.first && step <= range.last)
          found.push_back(
              {step, q.integer(1), hex(std::as_bytes(std::span(std::string_view(bytes).substr(at, kDigestBytes))))});
      }
    }
  }
  auto q = db_.prepare("SELECT step, generation, data_digest FROM steps WHERE job = ? AND step BETWEEN ? AND ? ORDER BY step");
  q.with(job, range.first, range.last);
  while (q.step()) found.push_back({q.integer(0), q.integer(1), q.text(2)});
  return found;
}

// Whether add() would have left fewer rows, or more points.
bool SqlMetrics::is_behind(const std::string& job) {
  const int64_t newest = newest_row(job), oldest = next_in_level(job, 0, 0);
  const int64_t unfolded = next_in_level(job, 0, level_end(job, 1));
  return (oldest > 0 && oldest < newest - kStepRowsKept - kFoldedAtOnce) ||
         (unfolded > 0 && unfolded <= whole(newest, kFoldedAtOnce));
}

void SqlMetrics::fold_what_is_behind(bool of_ended_jobs) {
  fold_jobs(of_ended_jobs ? "SELECT id FROM jobs ORDER BY number"
                          : "SELECT id FROM jobs WHERE finished_ms = 0 ORDER BY number");
}

void SqlMetrics::fold_jobs(const char* query) {
  std::vector<std::string> jobs;
  {
    auto q = db_.prepare(query);
    while (q.step()) jobs.push_back(q.text(0));
  }
  for (const std::string& job : jobs) {
    for (bool more = is_behind(job); more;) {
      db_.begin();
      const int64_t newest = newest_row(job);
      more = fold(job, newest) || drop_old(job, newest);
      db_.commit();
    }
  }
}

}  // namespace holdfast::rendezvous
