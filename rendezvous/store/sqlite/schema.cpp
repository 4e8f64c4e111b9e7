// Tables and migrations. Words are those of ARCHITECTURE.md: job, worker, incarnation, generation, step, checkpoint.
#include "rendezvous/store/sqlite/schema.h"

#include <fmt/format.h>

#include "rendezvous/store/job_store.h"

namespace holdfast::rendezvous {
namespace {

constexpr const char* kMigrations[] = {
    // 1
    R"sql(
CREATE TABLE jobs (
  id TEXT PRIMARY KEY, number INTEGER NOT NULL UNIQUE, name TEXT NOT NULL, spec TEXT NOT NULL,
  state TEXT NOT NULL, reason TEXT NOT NULL, stage TEXT NOT NULL, cause TEXT NOT NULL, intent TEXT NOT NULL,
  min_nodes INTEGER NOT NULL, nodes INTEGER NOT NULL, max_nodes INTEGER NOT NULL,
  committed_step INTEGER NOT NULL, restarts INTEGER NOT NULL, lineage INTEGER NOT NULL,
  data_digest TEXT NOT NULL, numerics TEXT NOT NULL, resume TEXT NOT NULL,
  submitted_ms INTEGER NOT NULL, started_ms INTEGER NOT NULL, finished_ms INTEGER NOT NULL,
  loss REAL, validation_loss REAL, state_hash TEXT NOT NULL, state_hash_step INTEGER NOT NULL
) STRICT;
CREATE TABLE workers (
  id TEXT PRIMARY KEY, incarnation TEXT NOT NULL, registration TEXT NOT NULL, life TEXT NOT NULL, draining INTEGER NOT NULL,
  job TEXT NOT NULL, last_job TEXT NOT NULL, after_generation INTEGER NOT NULL, lost_generation INTEGER NOT NULL,
  seen_ms INTEGER NOT NULL
) STRICT;
CREATE TABLE ended_incarnations (incarnation TEXT PRIMARY KEY, worker TEXT NOT NULL, code TEXT NOT NULL) STRICT;
CREATE TABLE generations (
  job TEXT NOT NULL REFERENCES jobs(id), number INTEGER NOT NULL, members TEXT NOT NULL, secret TEXT NOT NULL,
  source TEXT NOT NULL, lineage INTEGER NOT NULL, formed_ms INTEGER NOT NULL, PRIMARY KEY (job, number)
) STRICT;
CREATE TABLE checkpoints (
  job TEXT NOT NULL REFERENCES jobs(id), step INTEGER NOT NULL, record TEXT NOT NULL, unreadable INTEGER NOT NULL,
  PRIMARY KEY (job, step)
) STRICT;
CREATE TABLE refusals (
  job TEXT NOT NULL REFERENCES jobs(id), worker TEXT NOT NULL, incarnation TEXT NOT NULL, reason TEXT NOT NULL,
  PRIMARY KEY (job, worker)
) STRICT;
CREATE TABLE idempotency (key TEXT PRIMARY KEY, request TEXT NOT NULL, job TEXT NOT NULL REFERENCES jobs(id)) STRICT;
CREATE TABLE events (
  id INTEGER PRIMARY KEY AUTOINCREMENT, time_ms INTEGER NOT NULL, job TEXT NOT NULL, worker TEXT NOT NULL,
  generation INTEGER NOT NULL, kind TEXT NOT NULL, message TEXT NOT NULL
) STRICT;
CREATE INDEX events_of_job ON events(job, id);
CREATE TABLE logs (
  id INTEGER PRIMARY KEY AUTOINCREMENT, job TEXT NOT NULL, worker TEXT NOT NULL, time_ms INTEGER NOT NULL,
  level TEXT NOT NULL, text TEXT NOT NULL
) STRICT;
CREATE INDEX logs_of_job ON logs(job, id);
CREATE TABLE steps (
  id INTEGER PRIMARY KEY AUTOINCREMENT, job TEXT NOT NULL REFERENCES jobs(id), step INTEGER NOT NULL, generation INTEGER NOT NULL,
  time_ms INTEGER NOT NULL, loss REAL NOT NULL, gradient_norm REAL NOT NULL, learning_rate REAL NOT NULL, step_s REAL NOT NULL,
  communication_s REAL NOT NULL, tokens INTEGER NOT NULL, data_digest TEXT NOT NULL, validation_loss REAL,
  voided_by INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX steps_of_job ON steps(job, id);
CREATE UNIQUE INDEX steps_once ON steps(job, step) WHERE voided_by = 0;
CREATE TABLE ledger (
  job TEXT NOT NULL REFERENCES jobs(id), first_step INTEGER NOT NULL, last_step INTEGER NOT NULL, generation INTEGER NOT NULL,
  rank INTEGER NOT NULL, worker TEXT NOT NULL, first_microbatch INTEGER NOT NULL, last_microbatch INTEGER NOT NULL,
  voided_by INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (job, generation, rank, first_step)
) STRICT;
)sql",
    // 2: a rank may have several stretches of microbatches in one step: what it kept of it, and what it was dealt anew
    R"sql(
ALTER TABLE ledger RENAME TO ledger_1;
CREATE TABLE ledger (
  job TEXT NOT NULL REFERENCES jobs(id), first_step INTEGER NOT NULL, last_step INTEGER NOT NULL, generation INTEGER NOT NULL,
  rank INTEGER NOT NULL, worker TEXT NOT NULL, first_microbatch INTEGER NOT NULL, last_microbatch INTEGER NOT NULL,
  voided_by INTEGER NOT NULL DEFAULT 0, dealt_anew INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (job, generation, rank, first_step, first_microbatch)
) STRICT;
INSERT INTO ledger (job, first_step, last_step, generation, rank, worker, first_microbatch, last_microbatch, voided_by)
  SELECT job, first_step, last_step, generation, rank, worker, first_microbatch, last_microbatch, voided_by FROM ledger_1;
DROP TABLE ledger_1;
)sql",
    // 3: workers that are lost again and again are held back, over restarts of the service too
    R"sql(
ALTER TABLE workers ADD COLUMN began_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE workers ADD COLUMN short_lives INTEGER NOT NULL DEFAULT 0;
ALTER TABLE workers ADD COLUMN held_until_ms INTEGER NOT NULL DEFAULT 0;
)sql",
    // 4: steps that changed nothing, for their gradient was not finite; the end of the ledger is found without reading it all
    R"sql(
ALTER TABLE jobs ADD COLUMN refused_steps INTEGER NOT NULL DEFAULT 0;
CREATE INDEX ledger_live ON ledger(job, last_step) WHERE voided_by = 0;
)sql",
    // 5: tokens with roles, who asked for what, and whom to tell of it
    R"sql(
CREATE TABLE tokens (
  number INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, role TEXT NOT NULL, digest TEXT NOT NULL UNIQUE,
  created_ms INTEGER NOT NULL, expires_ms INTEGER NOT NULL, used_ms INTEGER NOT NULL
) STRICT;
ALTER TABLE events ADD COLUMN actor TEXT NOT NULL DEFAULT '';
CREATE TABLE webhooks (
  number INTEGER PRIMARY KEY AUTOINCREMENT, url TEXT NOT NULL, states TEXT NOT NULL, secret TEXT NOT NULL, created_ms INTEGER NOT NULL
) STRICT;
CREATE TABLE webhook_deliveries (
  id INTEGER PRIMARY KEY AUTOINCREMENT, webhook INTEGER NOT NULL REFERENCES webhooks(number), body TEXT NOT NULL,
  made_ms INTEGER NOT NULL, due_ms INTEGER NOT NULL, tries INTEGER NOT NULL
) STRICT;
)sql",
    // 6: weeks of steps and lines stay small: only the newest steps are rows of their own (those that were voided are none any
    // more, the ledger tells of them), older ones are points of curves and digests; lines are numbered within their job's log
    R"sql(
ALTER TABLE steps RENAME TO steps_4;
CREATE TABLE steps (
  id INTEGER PRIMARY KEY AUTOINCREMENT, job TEXT NOT NULL REFERENCES jobs(id), step INTEGER NOT NULL, generation INTEGER NOT NULL,
  world_size INTEGER NOT NULL, time_ms INTEGER NOT NULL, loss REAL NOT NULL, gradient_norm REAL NOT NULL,
  learning_rate REAL NOT NULL, step_s REAL NOT NULL, communication_s REAL NOT NULL, tokens INTEGER NOT NULL,
  data_digest TEXT NOT NULL, validation_loss REAL
) STRICT;
INSERT INTO steps SELECT id, job, step, generation,
    coalesce((SELECT json_array_length(members) FROM generations g WHERE g.job = steps_4.job AND g.number = generation), 0),
    time_ms, loss, gradient_norm, learning_rate, step_s, communication_s, tokens, data_digest, validation_loss
  FROM steps_4 WHERE voided_by = 0 ORDER BY id;
DELETE FROM sqlite_sequence WHERE name = 'steps';
INSERT INTO sqlite_sequence (name, seq) SELECT 'steps', seq FROM sqlite_sequence WHERE name = 'steps_4';
DROP TABLE steps_4;
CREATE INDEX steps_of_job ON steps(job, id);
CREATE UNIQUE INDEX steps_once ON steps(job, step);
CREATE TABLE curves (
  job TEXT NOT NULL REFERENCES jobs(id), level INTEGER NOT NULL, first_step INTEGER NOT NULL, last_step INTEGER NOT NULL,
  steps INTEGER NOT NULL, time_ms INTEGER NOT NULL, generation INTEGER NOT NULL, world_size INTEGER NOT NULL,
  loss REAL NOT NULL, loss_min REAL NOT NULL, loss_max REAL NOT NULL, loss_steps INTEGER NOT NULL,
  gradient_norm REAL NOT NULL, gradient_steps INTEGER NOT NULL, validation_loss REAL, learning_rate REAL NOT NULL,
  tokens INTEGER NOT NULL, step_s REAL NOT NULL, communication_s REAL NOT NULL, PRIMARY KEY (job, level, first_step)
) STRICT, WITHOUT ROWID;
CREATE TABLE step_digests (
  job TEXT NOT NULL REFERENCES jobs(id), first_step INTEGER NOT NULL, generation INTEGER NOT NULL, digests BLOB NOT NULL,
  PRIMARY KEY (job, first_step)
) STRICT, WITHOUT ROWID;
CREATE TABLE log_lines (
  job TEXT NOT NULL, number INTEGER NOT NULL, worker TEXT NOT NULL, time_ms INTEGER NOT NULL, level TEXT NOT NULL,
  text TEXT NOT NULL, PRIMARY KEY (job, number)
) STRICT, WITHOUT ROWID;
CREATE TABLE log_extents (
  job TEXT PRIMARY KEY, first INTEGER NOT NULL, last INTEGER NOT NULL, bytes INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO log_lines SELECT job, row_number() OVER (PARTITION BY job ORDER BY id), worker, time_ms, level, text FROM logs;
INSERT INTO log_extents SELECT job, 1, count(*), sum(length(CAST(text AS BLOB))) FROM logs GROUP BY job;
DROP TABLE logs;
)sql",
    // 7: what the queue knows of a job: what it comes after, preemptions, retries, how long it ran; and the newest batch of
    // log lines that was taken of a worker
    R"sql(
ALTER TABLE jobs ADD COLUMN queueing TEXT NOT NULL DEFAULT '{}';
ALTER TABLE workers ADD COLUMN log_batch INTEGER NOT NULL DEFAULT 0;
)sql",
    // 8: numbers that a log never gave out here, because it may have before the database was restored from an older copy: lines
    // above number `after` of the table are known to readers by a number that is `skipped` larger
    R"sql(
CREATE TABLE log_gaps (
  job TEXT NOT NULL, after INTEGER NOT NULL, skipped INTEGER NOT NULL, PRIMARY KEY (job, after)
) STRICT, WITHOUT ROWID;
)sql",
};

}  // namespace

int schema_version_known() {
  return static_cast<int>(std::size(kMigrations));
}

void migrate(SqliteDatabase& database, int to) {
  database.execute("CREATE TABLE IF NOT EXISTS schema_version (version INTEGER NOT NULL) STRICT");
  int64_t version = 0;
  if (auto row = database.prepare("SELECT max(version) FROM schema_version"); row.step()) version = row.integer(0);
  const int known = schema_version_known();
  if (version > known) {
    throw StoreError(
        fmt::format("database {} has schema version {}, this program knows {}: it was written by a newer holdfast; run "
                    "that one, or choose another --data_dir",
                    database.name(), version, known));
  }
  for (int next = static_cast<int>(version) + 1; next <= to; ++next) {
    database.execute("BEGIN IMMEDIATE");
    database.execute(kMigrations[next - 1]);
    database.prepare("INSERT INTO schema_version (version) VALUES (?)").with(next).run();
    database.execute("COMMIT");
  }
}

}  // namespace holdfast::rendezvous
