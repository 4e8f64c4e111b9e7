// Rows to SQL and back. Nested values (a registration, members, a source) are JSON in one column: nobody queries inside.
#include "rendezvous/store/sqlite/store.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "rendezvous/store/kept_fields.h"
#include "rendezvous/store/sqlite/access.h"
#include "rendezvous/store/sqlite/files_in_place.h"
#include "rendezvous/store/sqlite/ledger.h"
#include "rendezvous/store/sqlite/logs.h"
#include "rendezvous/store/sqlite/metrics.h"
#include "rendezvous/store/sqlite/rescue.h"
#include "rendezvous/store/sqlite/retention.h"
#include "rendezvous/store/sqlite/schema.h"
#include "rendezvous/store/stored_json.h"

namespace holdfast::rendezvous {
namespace {

using Json = nlohmann::json;

// The columns of the table of jobs that are no part of its membership (kept_fields.h has those).
template <typename Stored>
struct JobColumn {
  const char* name;
  Stored JobRow::*stored;
  bool changes = true;  // false: written once
};

// visit(column with name, stored, changes), for each column of the table of jobs.
template <typename Visit>
void for_each_job_column(Visit visit) {
  visit(JobColumn{"number", &JobRow::number, false});
  visit(JobColumn{"name", &JobRow::name, false});
  for_each_kept_column([&](const auto& column) { visit(column); });
  visit(JobColumn{"started_ms", &JobRow::started_ms});
  visit(JobColumn{"finished_ms", &JobRow::finished_ms});
  visit(JobColumn{"loss", &JobRow::loss});
  visit(JobColumn{"validation_loss", &JobRow::validation_loss});
  visit(JobColumn{"state_hash", &JobRow::state_hash});
  visit(JobColumn{"state_hash_step", &JobRow::state_hash_step});
  visit(JobColumn{"refused_steps", &JobRow::refused_steps});
  visit(JobColumn{"queueing", &JobRow::queueing});
}

struct JobColumns {
  std::vector<std::string> names, that_change;
};
JobColumns job_columns() {
  JobColumns columns;
  for_each_job_column([&](const auto& column) {
    columns.names.emplace_back(column.name);
    if (column.changes) columns.that_change.emplace_back(column.name);
  });
  return columns;
}

void read(const SqliteStatement& row, int column, std::string& value) {
  value = row.text(column);
}
void read(const SqliteStatement& row, int column, int64_t& value) {
  value = row.integer(column);
}
void read(const SqliteStatement& row, int column, std::optional<double>& value) {
  value = row.maybe_real(column);
}

class SqliteStore : public JobStore, public Records {
 public:
  SqliteStore(const std::string& path, const Retention& retention) : db_(path), retention_(retention) {
    db_.execute("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON");
    migrate(db_);
    files_.emplace(path);
    metrics_.fold_what_is_behind(schema_version_known());
  }
  ~SqliteStore() override;

  void begin() override { db_.execute("BEGIN IMMEDIATE"); }
  void commit() override;
  void check_files() override;

  StoreContents load() override;
  void save_job(const JobRow& row) override;
  void save_worker(const WorkerRow& row) override;
  void remove_worker(const std::string& worker) override;
  void end_incarnation(const std::string& worker, const std::string& incarnation, const std::string& code) override;
  void add_generation(const GenerationRow& row) override;
  void save_checkpoint(const CheckpointRow& row) override;
  void remove_checkpoint(const std::string& job, int64_t step) override;
  void save_refusal(const RefusalRow& row) override;
  void save_idempotency(const IdempotencyRow& row) override;
  std::optional<IdempotencyRow> find_idempotency(const std::string& key) override;
  StoredTokens load_tokens() override { return access_.load_tokens(); }
  void save_token(const TokenRow& row) override { access_.save(row); }
  void remove_token(const std::string& id) override { access_.remove_token(id); }
  StoredWebhooks load_webhooks() override { return access_.load_webhooks(); }
  void save_webhook(const WebhookRow& row) override { access_.save(row); }
  void remove_webhook(const std::string& id) override { access_.remove_webhook(id); }
  void save_delivery(const DeliveryRow& row) override { access_.save(row); }
  void remove_delivery(int64_t id) override { access_.remove_delivery(id); }
  void add_event(const EventRow& row) override;
  void add_logs(const std::string& job, const std::string& worker, const std::vector<LogLine>& lines) override {
    logs_.add(job, worker, lines);
  }
  void add_steps(const std::string& job, const std::vector<StepRow>& rows) override { metrics_.add(job, rows); }
  void extend_ledger(const std::string& job, const Generation& generation, int64_t microbatches, int64_t first,
                     int64_t last) override {
    ledger_.extend(job, generation, microbatches, first, last);
  }
  void deal_anew(const std::string& job, int64_t step, const std::vector<DealtShare>& shares) override {
    ledger_.deal_anew(job, step, shares);
  }
  void void_steps(const std::string& job, int64_t first, int64_t by_generation) override {
    ledger_.void_steps(job, first, by_generation);
    metrics_.void_steps(job, first);
  }
  void skip_ids(int64_t now_ms) override;
  bool forget_old(int64_t now_ms) override { return old_.forget(now_ms); }
  Records& records() override { return *this; }

  std::vector<EventRow> events(const std::string& job, int64_t after, int64_t limit) override;
  std::vector<StepRow> steps(const std::string& job, int64_t after, int64_t limit) override {
    return metrics_.rows(job, after, limit);
  }
  int64_t folded_to(const std::string& job) override { return metrics_.folded_to(job); }
  int64_t newest_event_id(const std::string& job) override;
  int64_t newest_step_id(const std::string& job) override { return metrics_.newest_id(job); }
  std::vector<CurvePoint> curve(const std::string& job, int64_t at_most) override { return metrics_.curve(job, at_most); }
  LogPage logs(const LogQuery& query, int64_t limit) override { return logs_.page(query, limit); }
  int64_t before_newest_logs(const LogQuery& query, int64_t count) override { return logs_.before_newest(query, count); }
  StepRange ledger_range(const std::string& job) override { return ledger_.range(job); }
  std::vector<LedgerRow> ledger(const std::string& job, const StepRange& range) override { return ledger_.rows(job, range); }
  std::vector<StepDigest> digests(const std::string& job, const StepRange& range) override {
    return metrics_.digests(job, range);
  }

 private:
  std::vector<JobRow> load_jobs();
  std::vector<WorkerRow> load_workers();
  std::vector<GenerationRow> load_generations();
  std::vector<CheckpointRow> load_checkpoints();
  bool take_log_in();

  SqliteDatabase db_;
  std::optional<FilesInPlace> files_;
  bool lost_ = false;  // and what could be saved was
  const Retention retention_;
  SqliteLedger ledger_{db_};
  SqliteAccess access_{db_};
  SqliteMetrics metrics_{db_};
  SqliteLogs logs_{db_, retention_};
  SqliteRetention old_{db_, retention_, logs_};
};

// --- the file below it

// After the commit too: a file that lost its name meanwhile has taken it along.
void SqliteStore::commit() {
  check_files();
  db_.execute("COMMIT");
  check_files();
}

void SqliteStore::check_files() {
  const FilesInPlace::Loss loss = files_->loss();
  if (loss == FilesInPlace::Loss::kNone) return;
  const std::string what = files_->what_happened();
  if (loss == FilesInPlace::Loss::kOfLog && take_log_in()) {
    throw StoreError(
        fmt::format("{} while the service ran with it: its rows were put into the database, nothing is lost, and "
                    "the service begins again",
                    what));
  }
  lost_ = true;
  throw StoreError(rescue(db_, what));
}

// False where another process reads just now.
bool SqliteStore::take_log_in() {
  if (db_.in_transaction()) db_.execute("ROLLBACK");
  auto q = db_.prepare("PRAGMA wal_checkpoint(TRUNCATE)");
  return q.step() && q.integer(0) == 0;
}

// Nobody may have written since the file lost its name.
SqliteStore::~SqliteStore() {
  if (!lost_ && files_->loss() == FilesInPlace::Loss::kOfAll) rescue(db_, files_->what_happened());
}

// --- what the service starts from

std::vector<JobRow> SqliteStore::load_jobs() {
  std::vector<JobRow> rows;
  static const std::string kQuery = fmt::format("SELECT {} FROM jobs ORDER BY number", fmt::join(job_columns().names, ", "));
  auto q = db_.prepare(kQuery);
  while (q.step()) {
    JobRow& row = rows.emplace_back();
    for_each_job_column([&, index = 0](const auto& column) mutable { read(q, index++, row.*column.stored); });
  }
  return rows;
}

std::vector<WorkerRow> SqliteStore::load_workers() {
  std::vector<WorkerRow> rows;
  auto q = db_.prepare(
      "SELECT registration, life, draining, job, last_job, after_generation, lost_generation, seen_ms, began_ms, "
      "short_lives, held_until_ms, log_batch FROM workers ORDER BY id");
  while (q.step()) {
    WorkerRow& row = rows.emplace_back();
    row.registration = Json::parse(q.text(0)).get<RegisterRequest>();
    row.life = q.text(1);
    row.draining = q.integer(2) != 0;
    row.job = q.text(3);
    row.last_job = q.text(4);
    row.after_generation = q.integer(5);
    row.lost_generation = q.integer(6);
    row.seen_ms = q.integer(7);
    row.losses = {q.integer(8), q.integer(9), q.integer(10)};
    row.log_batch = q.integer(11);
  }
  return rows;
}

std::vector<GenerationRow> SqliteStore::load_generations() {
  std::vector<GenerationRow> rows;
  auto q = db_.prepare(
      "SELECT job, g.number, members, secret, source, g.lineage FROM generations g JOIN jobs j ON j.id = g.job "
      "WHERE j.state NOT IN ('succeeded', 'failed', 'cancelled') "
      "OR g.number = (SELECT max(number) FROM generations WHERE job = j.id) ORDER BY job, g.number");
  while (q.step()) {
    GenerationRow& row = rows.emplace_back();
    row.job = q.text(0);
    row.generation.number = q.integer(1);
    row.generation.members = members_from_json(Json::parse(q.text(2)));
    row.generation.secret = q.text(3);
    row.generation.source = source_from_json(Json::parse(q.text(4)));
    row.generation.lineage = q.integer(5);
  }
  return rows;
}

std::vector<CheckpointRow> SqliteStore::load_checkpoints() {
  std::vector<CheckpointRow> rows;
  auto q = db_.prepare("SELECT job, record, unreadable FROM checkpoints ORDER BY job, step");
  while (q.step()) rows.push_back({q.text(0), Json::parse(q.text(1)).get<CheckpointRecord>(), q.integer(2) != 0});
  return rows;
}

StoreContents SqliteStore::load() {
  StoreContents contents{load_jobs(), load_workers(), load_generations(), load_checkpoints(), {}, {}};
  auto refusals = db_.prepare("SELECT job, worker, incarnation, reason FROM refusals");
  while (refusals.step()) contents.refusals.push_back({refusals.text(0), refusals.text(1), refusals.text(2), refusals.text(3)});
  auto ended = db_.prepare("SELECT incarnation, code FROM ended_incarnations");
  while (ended.step()) contents.ended_incarnations[ended.text(0)] = ended.text(1);
  return contents;
}

// --- writes

void SqliteStore::save_job(const JobRow& row) {
  static const std::string kInsert = [] {
    const JobColumns columns = job_columns();
    std::vector<std::string> updates;
    for (const std::string& name : columns.that_change) updates.push_back(fmt::format("{0}=excluded.{0}", name));
    return fmt::format("INSERT INTO jobs ({}) VALUES ({}) ON CONFLICT(id) DO UPDATE SET {}", fmt::join(columns.names, ", "),
                       fmt::join(std::vector<std::string>(columns.names.size(), "?"), ","), fmt::join(updates, ", "));
  }();
  auto q = db_.prepare(kInsert);
  for_each_job_column([&](const auto& column) { q.with(row.*column.stored); });
  q.run();
}

void SqliteStore::save_worker(const WorkerRow& r) {
  db_.prepare(
         "INSERT OR REPLACE INTO workers (id, incarnation, registration, life, draining, job, last_job, after_generation, "
         "lost_generation, seen_ms, began_ms, short_lives, held_until_ms, log_batch) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)")
      .with(r.registration.name, r.registration.incarnation, Json(r.registration).dump(), r.life, r.draining, r.job, r.last_job)
      .with(r.after_generation, r.lost_generation, r.seen_ms)
      .with(r.losses.began_ms, r.losses.short_lives, r.losses.held_until_ms, r.log_batch)
      .run();
}

void SqliteStore::remove_worker(const std::string& worker) {
  db_.prepare("DELETE FROM workers WHERE id = ?").with(worker).run();
}

void SqliteStore::end_incarnation(const std::string& worker, const std::string& incarnation, const std::string& code) {
  db_.prepare("INSERT OR REPLACE INTO ended_incarnations (incarnation, worker, code) VALUES (?,?,?)")
      .with(incarnation, worker, code)
      .run();
}

void SqliteStore::add_generation(const GenerationRow& row) {
  const Generation& g = row.generation;
  db_.prepare("INSERT INTO generations (job, number, members, secret, source, lineage, formed_ms) VALUES (?,?,?,?,?,?,?)")
      .with(row.job, g.number, members_to_json(g.members).dump(), g.secret, source_to_json(g.source).dump(), g.lineage,
            row.formed_ms)
      .run();
}

void SqliteStore::save_checkpoint(const CheckpointRow& row) {
  db_.prepare("INSERT OR REPLACE INTO checkpoints (job, step, record, unreadable) VALUES (?,?,?,?)")
      .with(row.job, row.record.step, Json(row.record).dump(), row.unreadable)
      .run();
}

void SqliteStore::remove_checkpoint(const std::string& job, int64_t step) {
  db_.prepare("DELETE FROM checkpoints WHERE job = ? AND step = ?").with(job, step).run();
}

void SqliteStore::save_refusal(const RefusalRow& row) {
  db_.prepare("INSERT OR REPLACE INTO refusals (job, worker, incarnation, reason) VALUES (?,?,?,?)")
      .with(row.job, row.worker, row.incarnation, row.reason)
      .run();
}

void SqliteStore::save_idempotency(const IdempotencyRow& row) {
  db_.prepare("INSERT INTO idempotency (key, request, job) VALUES (?,?,?)").with(row.key, row.request, row.job).run();
}

std::optional<IdempotencyRow> SqliteStore::find_idempotency(const std::string& key) {
  auto q = db_.prepare("SELECT key, request, job FROM idempotency WHERE key = ?");
  if (!q.with(key).step()) return std::nullopt;
  return IdempotencyRow{q.text(0), q.text(1), q.text(2)};
}

void SqliteStore::add_event(const EventRow& row) {
  db_.prepare("INSERT INTO events (time_ms, job, worker, generation, kind, message, actor) VALUES (?,?,?,?,?,?,?)")
      .with(row.time_ms, row.job, row.worker, row.generation, row.kind, row.message, row.actor)
      .run();
}

// To the time in milliseconds: whoever gives out fewer than a thousand ids a second never reaches it by counting, and one copy
// may be restored twice. Readers whose numbers are doubles (a page in a browser) hold it exactly.
void SqliteStore::skip_ids(int64_t now_ms) {
  for (const char* table : {"events", "steps", "webhook_deliveries"}) {
    db_.prepare(
           "INSERT INTO sqlite_sequence (name, seq) SELECT ?1, 0 WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = "
           "?1)")
        .with(table)
        .run();
    db_.prepare("UPDATE sqlite_sequence SET seq = max(seq, ?) WHERE name = ?").with(now_ms, table).run();
  }
  logs_.skip_to(now_ms);
}

// --- reads

std::vector<EventRow> SqliteStore::events(const std::string& job, int64_t after, int64_t limit) {
  std::vector<EventRow> rows;
  auto q = db_.prepare(job.empty() ? "SELECT id, time_ms, job, worker, generation, kind, message, actor FROM events "
                                     "WHERE ? = '' AND id > ? ORDER BY id LIMIT ?"
                                   : "SELECT id, time_ms, job, worker, generation, kind, message, actor FROM events "
                                     "WHERE job = ? AND id > ? ORDER BY id LIMIT ?");
  q.with(job, after, limit);
  while (q.step())
    rows.push_back({q.integer(0), q.integer(1), q.text(2), q.text(3), q.integer(4), q.text(5), q.text(6), q.text(7)});
  return rows;
}

int64_t SqliteStore::newest_event_id(const std::string& job) {
  auto q = db_.prepare(job.empty() ? "SELECT id FROM events WHERE ? = '' ORDER BY id DESC LIMIT 1"
                                   : "SELECT id FROM events WHERE job = ? ORDER BY id DESC LIMIT 1");
  return q.with(job).step() ? q.integer(0) : 0;
}

}  // namespace

std::unique_ptr<JobStore> open_sqlite_store(const std::string& path, const Retention& retention) {
  refuse_lost(path);
  return std::make_unique<SqliteStore>(path, retention);
}

}  // namespace holdfast::rendezvous
