// Rows that go from one engine to the other and back are the same.
#include "rendezvous/store/sql/copy.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "rendezvous/store/postgresql/schema.h"
#include "rendezvous/store/postgresql/store.h"
#include "rendezvous/store/sql/tables.h"
#include "rendezvous/store/sqlite/database.h"
#include "rendezvous/store/sqlite/store.h"
#include "tests/rendezvous/store/engines.h"
#include "tests/rendezvous/store/postgresql_server.h"

namespace holdfast::rendezvous {
namespace {

void fill(JobStore& store) {
  store.begin();
  for (int64_t number = 1; number <= 3; ++number) {
    JobRow job;
    job.id = fmt::format("j{}", number);
    job.number = number;
    job.name = "\xE4\xB8\xAD 'quoted'";
    job.spec = "{}";
    job.resume = "[]";
    if (number == 2) job.loss = 0.1 + 0.2;
    store.save_job(job);
    std::vector<StepRow> steps;
    for (int64_t step = 1; step <= 21'000; ++step) {
      StepRow row;
      row.job = job.id;
      row.generation = row.world_size = 1;
      row.point.step = step;
      row.point.loss = step == 7 ? std::numeric_limits<double>::quiet_NaN() : 1.0 / static_cast<double>(step);
      row.point.tokens_digest = fmt::format("{:016x}", step * 0x9E3779B97F4A7C15ULL);
      steps.push_back(row);
      if (step % 1000 == 0) store.add_steps(job.id, std::exchange(steps, {}));
      if (number > 1 && step == 300) break;
    }
    store.add_steps(job.id, steps);
    store.add_logs(job.id, "w1", {{1, "info", "a line"}, {2, "warning", ""}});
    store.add_event({0, number, job.id, "", 1, "kind", "message", "somebody"});
  }
  store.save_token({"t4", "name", Role::kRead, "digest", 1, 2, 3});
  store.remove_token("t4");
  store.save_webhook({"w2", "https://x", {"failed"}, "secret", 5});
  store.save_delivery({9, "w2", "body", 1, 2, 3});
  store.commit();
}

TEST(Copy, FromOneEngineToTheOtherAndBackNothingChanges) {
  const EngineDatabase sqlite(Engine::kSqlite), back(Engine::kSqlite);
  fill(*open_sqlite_store(sqlite.address()));
  PostgresqlDatabase postgresql({.address = PostgresqlServer::shared().fresh_address()});
  make_tables(postgresql);
  std::map<std::string, int64_t> rows;
  const auto note = [&](const std::string& table, int64_t count) { rows[table] += count; };
  copy_rows(*open_sqlite_database(sqlite.address()), postgresql, note);
  EXPECT_EQ(rows["jobs"], 3);
  EXPECT_EQ(rows["log_lines"], 6);
  EXPECT_GT(rows["steps"], 1000);
  EXPECT_GT(rows["step_digests"], 0);
  const auto again = open_sqlite_database(back.address());
  copy_rows(postgresql, *again, note);
  EXPECT_EQ(rows["jobs"], 6);
  const auto store = open_sqlite_store(back.address());
  EXPECT_EQ(store->load_tokens().last_number, 4) << "the number of a token that is gone is not given out again";
  EXPECT_EQ(store->load_webhooks().last_delivery, 9);
  EXPECT_TRUE(std::isnan(store->records().steps("j2", 0, 10).at(6).point.loss));
  EXPECT_EQ(store->load().jobs.at(1).loss, 0.1 + 0.2);
}

TEST(Copy, TextsThatPostgresqlCannotKeepDoNotEndIt) {
  const EngineDatabase sqlite(Engine::kSqlite);
  {
    const auto store = open_sqlite_store(sqlite.address());
    fill(*store);
    store->begin();
    store->add_logs("j1", "w2", {{3, "error", std::string("a\0b\xff", 4)}});
    store->commit();
  }
  const std::string address = PostgresqlServer::shared().fresh_address();
  {
    PostgresqlDatabase postgresql({.address = address});
    make_tables(postgresql);
    copy_rows(*open_sqlite_database(sqlite.address()), postgresql, [](const std::string&, int64_t) {});
  }
  const LogPage lines = open_postgresql_store({.address = address})->records().logs({"j1", 0, "w2", ""}, 10);
  ASSERT_EQ(lines.rows.size(), 1u);
  EXPECT_EQ(lines.rows[0].line.text,
            "a\xEF\xBF\xBD"
            "b\xEF\xBF\xBD");
}

TEST(Copy, IdsGoOnAboveThoseThatWereGivenOut) {
  const EngineDatabase sqlite(Engine::kSqlite);
  fill(*open_sqlite_store(sqlite.address()));
  const std::string address = PostgresqlServer::shared().fresh_address();
  {
    PostgresqlDatabase postgresql({.address = address});
    make_tables(postgresql);
    copy_rows(*open_sqlite_database(sqlite.address()), postgresql, [](const std::string&, int64_t) {});
  }
  const auto store = open_postgresql_store({.address = address});
  const int64_t before = store->records().newest_event_id("");
  store->begin();
  store->add_event({0, 1, "", "", 0, "kind", "new", ""});
  store->commit();
  EXPECT_EQ(store->records().newest_event_id(""), before + 1);
}

TEST(Copy, ADatabaseWithRowsIsNotOverwritten) {
  const EngineDatabase one(Engine::kSqlite), two(Engine::kSqlite);
  fill(*open_sqlite_store(one.address()));
  fill(*open_sqlite_store(two.address()));
  const auto from = open_sqlite_database(one.address()), to = open_sqlite_database(two.address());
  try {
    copy_rows(*from, *to, [](const std::string&, int64_t) {});
    FAIL() << "it was copied";
  } catch (const StoreError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("has rows in the table jobs already"));
  }
}

using Columns = std::map<std::string, std::set<std::string>>;

Columns listed() {
  Columns columns;
  for (const SqlTable& table : sql_tables()) {
    for (const SqlColumn& column : table.columns) columns[table.name].insert(column.name);
  }
  return columns;
}

TEST(Copy, TheListOfTablesIsWhatEachEngineHas) {
  const EngineDatabase sqlite(Engine::kSqlite);
  const auto database = open_sqlite_database(sqlite.address());
  Columns there;
  auto q = database->prepare(
      "SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table' AND m.name NOT IN "
      "('schema_version', 'sqlite_sequence')");
  while (q.step()) there[q.text(0)].insert(q.text(1));
  EXPECT_EQ(there, listed());

  const std::string address = PostgresqlServer::shared().fresh_address();
  PostgresqlDatabase postgresql({.address = address});
  make_tables(postgresql);
  there.clear();
  auto columns = postgresql.prepare(
      "SELECT table_name::text, column_name::text FROM information_schema.columns WHERE table_schema = current_schema() AND "
      "table_name NOT IN ('schema_version', 'leadership', 'beats', 'id_counters')");
  while (columns.step()) there[columns.text(0)].insert(columns.text(1));
  EXPECT_EQ(there, listed());
}

}  // namespace
}  // namespace holdfast::rendezvous
