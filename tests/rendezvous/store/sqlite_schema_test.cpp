// The store's SQLite file: databases of older and newer programs, and files that are none.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "rendezvous/store/sqlite/database.h"
#include "rendezvous/store/sqlite/schema.h"
#include "rendezvous/store/sqlite/store.h"

namespace holdfast::rendezvous {
namespace {

class SqliteFileTest : public testing::Test {
 protected:
  SqliteFileTest() : path_(testing::TempDir() + "holdfast-store-" + std::to_string(getpid()) + "-" + name() + ".sqlite") {
    remove();
  }
  ~SqliteFileTest() override { remove(); }

  static std::string name() { return testing::UnitTest::GetInstance()->current_test_info()->name(); }
  void remove() {
    for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(path_ + suffix);
  }

  std::string path_;
};

// The service was killed after the commit of a migration and before the steps were folded: all steps are still rows.
TEST_F(SqliteFileTest, StepsThatAreAllRowsAreFoldedAtEveryStart) {
  constexpr int64_t kSteps = 50'000;
  for (const int version : {4, 5, schema_version_known()}) {
    SCOPED_TRACE(version);
    remove();
    {
      SqliteDatabase database(path_);
      migrate(database, version);
      const bool old = version < 6;
      database.execute("BEGIN");
      database.execute(
          "INSERT INTO jobs (id, number, name, spec, state, reason, stage, cause, intent, min_nodes, nodes, max_nodes, "
          "committed_step, restarts, lineage, data_digest, numerics, resume, submitted_ms, started_ms, finished_ms, "
          "state_hash, state_hash_step) VALUES ('j1', 1, 'j1', '{}', 'succeeded', '', 'running', 'start', 'run', 1, 1, 1, "
          "50000, 0, 1, '', '', '[]', 1, 1, 1, '', -1)");
      database
          .prepare(std::string("WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < ?) "
                               "INSERT INTO steps (job, step, generation, time_ms, loss, gradient_norm, learning_rate, step_s, "
                               "communication_s, tokens, data_digest, ") +
                   (old ? "voided_by" : "world_size") +
                   ") SELECT 'j1', n, 1, n, n, 1, 1, 1, 0, 10, printf('%016x', n), 0 FROM s")
          .with(kSteps)
          .run();
      database.execute("COMMIT");
    }
    const auto store = open_sqlite_store(path_);
    EXPECT_GE(store->records().folded_to("j1"), kSteps - 21'000);
    const auto rows = store->records().steps("j1", 0, 2 * kSteps);
    ASSERT_FALSE(rows.empty());
    EXPECT_LE(rows.size(), 21'000u);
    EXPECT_EQ(rows.front().point.step, store->records().folded_to("j1") + 1);
    int64_t next = 1;
    for (const CurvePoint& point : store->records().curve("j1", 100)) {
      ASSERT_EQ(point.first_step, next);
      EXPECT_EQ(point.steps, point.last_step - point.first_step + 1);
      EXPECT_NEAR(point.loss, static_cast<double>(point.first_step + point.last_step) / 2, 1e-6);
      next = point.last_step + 1;
    }
    EXPECT_EQ(next, kSteps + 1);
    const auto digests = store->records().digests("j1", {1, kSteps});
    ASSERT_EQ(digests.size(), static_cast<size_t>(kSteps));
    EXPECT_EQ(digests[999].tokens_digest, "00000000000003e8");
    EXPECT_EQ(digests.back().step, kSteps);
    SqliteDatabase database(path_);
    auto looked_at_all = database.prepare("PRAGMA user_version");
    ASSERT_TRUE(looked_at_all.step());
    EXPECT_EQ(looked_at_all.integer(0), schema_version_known()) << "the next start need not look at jobs that ended";
  }
}

TEST_F(SqliteFileTest, ADatabaseOfANewerProgramIsRefusedWithBothVersions) {
  (void)open_sqlite_store(path_);
  {
    SqliteDatabase database(path_);
    database.prepare("INSERT INTO schema_version (version) VALUES (?)").with(schema_version_known() + 3).run();
  }
  try {
    (void)open_sqlite_store(path_);
    FAIL() << "it was opened";
  } catch (const StoreError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("schema version " + std::to_string(schema_version_known() + 3)));
    EXPECT_THAT(error.what(), testing::HasSubstr("knows " + std::to_string(schema_version_known())));
  }
}

TEST_F(SqliteFileTest, AFileThatIsNotADatabaseIsNamedWithWhatToDo) {
  FILE* file = fopen(path_.c_str(), "w");
  for (int i = 0; i < 100; ++i) fputs("this is no database at all\n", file);
  fclose(file);
  try {
    (void)open_sqlite_store(path_);
    FAIL() << "it was opened";
  } catch (const StoreError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr(path_));
    EXPECT_THAT(error.what(), testing::HasSubstr("put a copy of it back"));
  }
}

}  // namespace
}  // namespace holdfast::rendezvous
