// The store: committed rows are there after kill -9, and databases of newer programs are refused.
#include "rendezvous/store/sqlite/store.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "rendezvous/store/sqlite/schema.h"

namespace holdfast::rendezvous {
namespace {

class StoreTest : public testing::Test {
 protected:
  StoreTest() : path_(testing::TempDir() + "holdfast-store-" + std::to_string(getpid()) + "-" + name() + ".sqlite") {
    remove();
  }
  ~StoreTest() override { remove(); }

  static std::string name() { return testing::UnitTest::GetInstance()->current_test_info()->name(); }
  void remove() {
    for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(path_ + suffix);
  }
  static JobRow job(const std::string& id, int64_t number) {
    JobRow row;
    row.id = id;
    row.number = number;
    row.spec = "{}";
    row.state = "running";
    row.stage = "running";
    row.cause = "start";
    row.intent = "run";
    row.resume = "[]";
    return row;
  }
  static Generation generation(int64_t number, int64_t members) {
    Generation generation;
    generation.number = number;
    for (int64_t i = 1; i <= members; ++i) {
      const std::string worker = fmt::format("w{}", i);
      generation.members.push_back({worker, worker + "-1", worker + ":1"});
    }
    generation.secret = "secret";
    generation.source = {StateSource::Kind::kCheckpoint, 60, "j0", "/shared", "hash"};
    generation.lineage = 3;
    return generation;
  }
  std::vector<std::string> ledger(JobStore& store) {
    std::vector<std::string> lines;
    for (const LedgerRow& row : store.records().ledger("j1", {1, INT64_MAX})) {
      std::string line = std::to_string(row.first_step) + "-" + std::to_string(row.last_step) + " g" +
                         std::to_string(row.generation) + " " + row.worker;
      line += " [" + std::to_string(row.first_microbatch) + "," + std::to_string(row.last_microbatch) + ")";
      lines.push_back(row.voided_by == 0 ? line : line + " void by g" + std::to_string(row.voided_by));
    }
    return lines;
  }

  std::string path_;
};

using Lines = std::vector<std::string>;

TEST_F(StoreTest, EverythingComesBackAsItWasWritten) {
  JobRow row = job("j1", 1);
  row.loss = 2.5;
  row.queueing = R"({"retries":2})";
  row.name = "a 'quoted' name \xF0\x9F\x9A\x80";
  WorkerRow worker;
  worker.registration.name = "w1";
  worker.registration.incarnation = "w1-1";
  worker.registration.numerics = "avx512";
  worker.life = "alive";
  worker.job = "j1";
  worker.after_generation = 6;
  worker.log_batch = 12;
  CheckpointRecord record;
  record.step = 60;
  record.state_hash = "hash";
  {
    const auto store = open_sqlite_store(path_);
    store->begin();
    store->save_job(row);
    store->save_worker(worker);
    store->add_generation({"j1", generation(7, 2), 5});
    store->save_checkpoint({"j1", record, true});
    store->save_refusal({"j1", "w9", "w9-1", "its data differs"});
    store->save_idempotency({"key", "{}", "j1"});
    store->end_incarnation("w1", "w1-0", "superseded");
    store->commit();
  }
  const auto store = open_sqlite_store(path_);
  const StoreContents contents = store->load();
  ASSERT_EQ(contents.jobs.size(), 1u);
  EXPECT_EQ(contents.jobs[0], row);
  ASSERT_EQ(contents.generations.size(), 1u);
  EXPECT_EQ(contents.generations[0].generation.members, generation(7, 2).members);
  EXPECT_EQ(contents.generations[0].generation.source, generation(7, 2).source);
  EXPECT_EQ(contents.generations[0].generation.secret, "secret");
  EXPECT_EQ(contents.workers[0].registration.numerics, "avx512");
  EXPECT_EQ(contents.workers[0].after_generation, 6);
  EXPECT_EQ(contents.workers[0].log_batch, 12);
  EXPECT_TRUE(contents.checkpoints[0].unreadable);
  EXPECT_EQ(contents.checkpoints[0].record.state_hash, "hash");
  EXPECT_EQ(contents.refusals[0].reason, "its data differs");
  EXPECT_EQ(contents.ended_incarnations.at("w1-0"), "superseded");
  EXPECT_EQ(store->find_idempotency("key")->job, "j1");
  EXPECT_EQ(store->find_idempotency("other"), std::nullopt);
}

TEST_F(StoreTest, UncommittedRowsAreNotThere) {
  {
    const auto store = open_sqlite_store(path_);
    store->begin();
    store->save_job(job("j1", 1));
    store->commit();
    store->begin();
    store->save_job(job("j2", 2));
  }
  EXPECT_EQ(open_sqlite_store(path_)->load().jobs.size(), 1u);
}

TEST_F(StoreTest, AGenerationNumberIsGivenOnce) {
  const auto store = open_sqlite_store(path_);
  store->begin();
  store->save_job(job("j1", 1));
  store->add_generation({"j1", generation(1, 1), 0});
  EXPECT_THROW(store->add_generation({"j1", generation(1, 2), 0}), StoreError);
  EXPECT_THROW(store->add_generation({"j9", generation(1, 2), 0}), StoreError) << "there is no such job";
}

TEST_F(StoreTest, TheLedgerGrowsByGenerationAndIsCutWhereStepsAreVoided) {
  const auto store = open_sqlite_store(path_);
  store->begin();
  store->save_job(job("j1", 1));
  store->extend_ledger("j1", generation(1, 3), 8, 1, 4);
  store->extend_ledger("j1", generation(1, 3), 8, 5, 9);
  store->extend_ledger("j1", generation(2, 1), 8, 10, 12);
  store->void_steps("j1", 7, 3);
  store->extend_ledger("j1", generation(3, 1), 8, 7, 7);
  store->commit();
  EXPECT_EQ(ledger(*store), (Lines{"1-6 g1 w1 [0,3)", "1-6 g1 w2 [3,6)", "1-6 g1 w3 [6,8)", "7-9 g1 w1 [0,3) void by g3",
                                   "7-9 g1 w2 [3,6) void by g3", "7-9 g1 w3 [6,8) void by g3", "7-7 g3 w1 [0,8)",
                                   "10-12 g2 w1 [0,8) void by g3"}));
}

TEST_F(StoreTest, AStepThatWasDealtAnewHasItsOwnRows) {
  const auto store = open_sqlite_store(path_);
  store->begin();
  store->save_job(job("j1", 1));
  store->extend_ledger("j1", generation(1, 2), 6, 1, 5);
  const std::vector<DealtShare> shares{{0, 0, 2}, {0, 4, 5}, {1, 2, 4}, {1, 5, 6}};
  for (int said = 0; said < 2; ++said) store->deal_anew("j1", 3, shares);
  store->deal_anew("j1", 5, {{1, 0, 6}});
  store->extend_ledger("j1", generation(1, 2), 6, 6, 7);
  store->deal_anew("j1", 9, shares);  // a step that is not committed: nothing is dealt
  store->commit();
  EXPECT_EQ(ledger(*store), (Lines{"1-2 g1 w1 [0,3)", "1-2 g1 w2 [3,6)", "3-3 g1 w1 [0,2)", "3-3 g1 w1 [4,5)",
                                   "3-3 g1 w2 [2,4)", "3-3 g1 w2 [5,6)", "4-4 g1 w1 [0,3)", "4-4 g1 w2 [3,6)",
                                   "5-5 g1 w2 [0,6)", "6-7 g1 w1 [0,3)", "6-7 g1 w2 [3,6)"}));
}

TEST_F(StoreTest, StepsDealtAnewInTheSameWayShareTheirRows) {
  const auto store = open_sqlite_store(path_);
  store->begin();
  store->save_job(job("j1", 1));
  const std::vector<DealtShare> shares{{0, 0, 4}, {1, 4, 6}};
  store->extend_ledger("j1", generation(1, 2), 6, 1, 2);
  for (int64_t step = 3; step <= 90; step += 3) {
    store->extend_ledger("j1", generation(1, 2), 6, step, step + 2);
    for (int64_t s = step; s < step + 3; ++s) store->deal_anew("j1", s, shares);
  }
  store->extend_ledger("j1", generation(1, 2), 6, 93, 95);
  store->void_steps("j1", 50, 2);
  store->commit();
  EXPECT_EQ(ledger(*store),
            (Lines{"1-2 g1 w1 [0,3)", "1-2 g1 w2 [3,6)", "3-49 g1 w1 [0,4)", "3-49 g1 w2 [4,6)", "50-92 g1 w1 [0,4) void by g2",
                   "50-92 g1 w2 [4,6) void by g2", "93-95 g1 w1 [0,3) void by g2", "93-95 g1 w2 [3,6) void by g2"}));
}

TEST_F(StoreTest, AStepIsKeptOnceUnlessItWasVoided) {
  const auto store = open_sqlite_store(path_);
  store->begin();
  store->save_job(job("j1", 1));
  StepRow row;
  row.job = "j1";
  row.point.step = 5;
  row.point.loss = 1;
  store->add_steps("j1", {row});
  row.point.loss = 2;
  store->add_steps("j1", {row});
  ASSERT_EQ(store->records().steps("j1", 0, 10).size(), 1u);
  EXPECT_EQ(store->records().steps("j1", 0, 10)[0].point.loss, 1);
  const int64_t id = store->records().steps("j1", 0, 10)[0].id;
  store->void_steps("j1", 5, 2);
  store->add_steps("j1", {row});
  ASSERT_EQ(store->records().steps("j1", 0, 10).size(), 1u);
  EXPECT_EQ(store->records().steps("j1", 0, 10)[0].point.loss, 2);
  EXPECT_GT(store->records().steps("j1", 0, 10)[0].id, id) << "followers see it as new";
}

// The service was killed after the commit of a migration and before the steps were folded: all steps are still rows.
TEST_F(StoreTest, StepsThatAreAllRowsAreFoldedAtEveryStart) {
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

TEST_F(StoreTest, ADatabaseOfANewerProgramIsRefusedWithBothVersions) {
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

TEST_F(StoreTest, AFileThatIsNotADatabaseIsNamedWithWhatToDo) {
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

// A child commits in a loop and acknowledges each commit through a pipe; it is killed in the middle. All acknowledged
// transactions must be there, and at most one more, whole.
TEST_F(StoreTest, AcknowledgedTransactionsSurviveKill9) {
  for (int round = 0; round < 3; ++round) {
    remove();
    int acknowledged[2];
    ASSERT_EQ(pipe(acknowledged), 0);
    const pid_t child = fork();
    if (child == 0) {
      close(acknowledged[0]);
      const auto store = open_sqlite_store(path_);
      store->begin();
      store->save_job(job("j1", 1));
      store->commit();
      for (int64_t step = 1;; ++step) {
        store->begin();
        JobRow row = job("j1", 1);
        row.committed_step = step;
        store->save_job(row);
        store->extend_ledger("j1", generation(1, 2), 8, step, step);
        store->add_event({0, step, "j1", "", 1, "step", std::to_string(step), ""});
        store->commit();
        if (write(acknowledged[1], "x", 1) != 1) _exit(1);
      }
    }
    close(acknowledged[1]);
    char byte;
    int64_t count = 0;
    while (count < 40 + 7 * round && read(acknowledged[0], &byte, 1) == 1) ++count;
    kill(child, SIGKILL);
    while (read(acknowledged[0], &byte, 1) == 1) ++count;  // the child went on until the signal came
    close(acknowledged[0]);
    waitpid(child, nullptr, 0);

    const auto store = open_sqlite_store(path_);
    const int64_t step = store->load().jobs.at(0).committed_step;
    EXPECT_GE(step, count);
    EXPECT_LE(step, count + 1);
    for (const LedgerRow& row : store->records().ledger("j1", {1, INT64_MAX})) EXPECT_EQ(row.last_step, step);
    EXPECT_EQ(static_cast<int64_t>(store->records().events("j1", 0, 100000).size()), step);
  }
}

}  // namespace
}  // namespace holdfast::rendezvous
