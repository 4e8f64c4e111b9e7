// Rows to SQL and back.
#include "rendezvous/store/sql/sql_store.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "rendezvous/store/kept_fields.h"
#include "rendezvous/store/sql/upsert.h"
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

void read(const SqlStatement& row, int column, std::string& value) {
  value = row.text(column);
}
void read(const SqlStatement& row, int column, int64_t& value) {
  value = row.integer(column);
}
void read(const SqlStatement& row, int column, std::optional<double>& value) {
  value = row.maybe_real(column);
}

}  // namespace

// --- what the service starts from

std::vector<JobRow> SqlStore::load_jobs() {
  std::vector<JobRow> rows;
  static const std::string kQuery = fmt::format("SELECT {} FROM jobs ORDER BY number", fmt::join(job_columns().names, ", "));
  auto q = db_->prepare(kQuery);
  while (q.step()) {
    JobRow& row = rows.emplace_back();
    for_each_job_column([&, index = 0](const auto& column) mutable { read(q, index++, row.*column.stored); });
  }
  return rows;
}

std::vector<WorkerRow> SqlStore::load_workers() {
  std::vector<WorkerRow> rows;
  auto q = db_->prepare(
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

std::vector<GenerationRow> SqlStore::load_generations() {
  std::vector<GenerationRow> rows;
  auto q = db_->prepare(
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

std::vector<CheckpointRow> SqlStore::load_checkpoints() {
  std::vector<CheckpointRow> rows;
  auto q = db_->prepare("SELECT job, record, unreadable FROM checkpoints ORDER BY job, step");
  while (q.step()) rows.push_back({q.text(0), Json::parse(q.text(1)).get<CheckpointRecord>(), q.integer(2) != 0});
  return rows;
}

StoreContents SqlStore::load() {
  StoreContents contents{load_jobs(), load_workers(), load_generations(), load_checkpoints(), {}, {}};
  auto refusals = db_->prepare("SELECT job, worker, incarnation, reason FROM refusals");
  while (refusals.step()) contents.refusals.push_back({refusals.text(0), refusals.text(1), refusals.text(2), refusals.text(3)});
  auto ended = db_->prepare("SELECT incarnation, code FROM ended_incarnations");
  while (ended.step()) contents.ended_incarnations[ended.text(0)] = ended.text(1);
  return contents;
}

// --- writes

void SqlStore::save_job(const JobRow& row) {
  static const std::string kInsert = [] {
    const JobColumns columns = job_columns();
    std::vector<std::string> updates;
    for (const std::string& name : columns.that_change) updates.push_back(fmt::format("{0}=excluded.{0}", name));
    return fmt::format("INSERT INTO jobs ({}) VALUES ({}) ON CONFLICT(id) DO UPDATE SET {}", fmt::join(columns.names, ", "),
                       fmt::join(std::vector<std::string>(columns.names.size(), "?"), ","), fmt::join(updates, ", "));
  }();
  auto q = db_->prepare(kInsert);
  for_each_job_column([&](const auto& column) { q.with(row.*column.stored); });
  q.run();
}

void SqlStore::save_worker(const WorkerRow& r) {
  static const std::string kUpsert =
      upsert("workers", {"id"},
             {"incarnation", "registration", "life", "draining", "job", "last_job", "after_generation", "lost_generation",
              "seen_ms", "began_ms", "short_lives", "held_until_ms", "log_batch"});
  db_->prepare(kUpsert)
      .with(r.registration.name, r.registration.incarnation, Json(r.registration).dump(), r.life, r.draining, r.job, r.last_job)
      .with(r.after_generation, r.lost_generation, r.seen_ms)
      .with(r.losses.began_ms, r.losses.short_lives, r.losses.held_until_ms, r.log_batch)
      .run();
}

void SqlStore::remove_worker(const std::string& worker) {
  db_->prepare("DELETE FROM workers WHERE id = ?").with(worker).run();
}

void SqlStore::end_incarnation(const std::string& worker, const std::string& incarnation, const std::string& code) {
  static const std::string kUpsert = upsert("ended_incarnations", {"incarnation"}, {"worker", "code"});
  db_->prepare(kUpsert).with(incarnation, worker, code).run();
}

void SqlStore::add_generation(const GenerationRow& row) {
  const Generation& g = row.generation;
  db_->prepare("INSERT INTO generations (job, number, members, secret, source, lineage, formed_ms) VALUES (?,?,?,?,?,?,?)")
      .with(row.job, g.number, members_to_json(g.members).dump(), g.secret, source_to_json(g.source).dump(), g.lineage,
            row.formed_ms)
      .run();
}

void SqlStore::save_checkpoint(const CheckpointRow& row) {
  static const std::string kUpsert = upsert("checkpoints", {"job", "step"}, {"record", "unreadable"});
  db_->prepare(kUpsert).with(row.job, row.record.step, Json(row.record).dump(), row.unreadable).run();
}

void SqlStore::remove_checkpoint(const std::string& job, int64_t step) {
  db_->prepare("DELETE FROM checkpoints WHERE job = ? AND step = ?").with(job, step).run();
}

void SqlStore::save_refusal(const RefusalRow& row) {
  static const std::string kUpsert = upsert("refusals", {"job", "worker"}, {"incarnation", "reason"});
  db_->prepare(kUpsert).with(row.job, row.worker, row.incarnation, row.reason).run();
}

void SqlStore::save_idempotency(const IdempotencyRow& row) {
  db_->prepare("INSERT INTO idempotency (key, request, job) VALUES (?,?,?)").with(row.key, row.request, row.job).run();
}

std::optional<IdempotencyRow> SqlStore::find_idempotency(const std::string& key) {
  auto q = db_->prepare("SELECT key, request, job FROM idempotency WHERE key = ?");
  if (!q.with(key).step()) return std::nullopt;
  return IdempotencyRow{q.text(0), q.text(1), q.text(2)};
}

void SqlStore::add_event(const EventRow& row) {
  db_->prepare("INSERT INTO events (time_ms, job, worker, generation, kind, message, actor) VALUES (?,?,?,?,?,?,?)")
      .with(row.time_ms, row.job, row.worker, row.generation, row.kind, row.message, row.actor)
      .run();
}

// To the time in milliseconds: whoever gives out fewer than a thousand ids a second never reaches it by counting, and one copy
// may be restored twice. Readers whose numbers are doubles (a page in a browser) hold it exactly.
void SqlStore::skip_ids(int64_t now_ms) {
  for (const char* table : {"events", "steps", "webhook_deliveries"}) db_->skip_ids_to(table, now_ms);
  logs_.skip_to(now_ms);
}

// --- reads

std::vector<EventRow> SqlStore::events(const std::string& job, int64_t after, int64_t limit) {
  std::vector<EventRow> rows;
  auto q = db_->prepare(job.empty() ? "SELECT id, time_ms, job, worker, generation, kind, message, actor FROM events "
                                      "WHERE ? = '' AND id > ? ORDER BY id LIMIT ?"
                                    : "SELECT id, time_ms, job, worker, generation, kind, message, actor FROM events "
                                      "WHERE job = ? AND id > ? ORDER BY id LIMIT ?");
  q.with(job, after, limit);
  while (q.step())
    rows.push_back({q.integer(0), q.integer(1), q.text(2), q.text(3), q.integer(4), q.text(5), q.text(6), q.text(7)});
  return rows;
}

int64_t SqlStore::newest_event_id(const std::string& job) {
  auto q = db_->prepare(job.empty() ? "SELECT id FROM events WHERE ? = '' ORDER BY id DESC LIMIT 1"
                                    : "SELECT id FROM events WHERE job = ? ORDER BY id DESC LIMIT 1");
  return q.with(job).step() ? q.integer(0) : 0;
}

}  // namespace holdfast::rendezvous
