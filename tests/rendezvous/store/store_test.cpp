// The store on each engine: what was committed is there after kill -9 of the service, and nothing else.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/rendezvous/store/engines.h"
#include "tests/rendezvous/store/postgresql_server.h"

namespace holdfast::rendezvous {
namespace {

JobRow job(const std::string& id, int64_t number) {
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

class StoreTest : public EngineTest {
 protected:
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
};

using Lines = std::vector<std::string>;

TEST_P(StoreTest, EverythingComesBackAsItWasWritten) {
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
    const auto store = open();
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
  const auto store = open();
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

TEST_P(StoreTest, UncommittedRowsAreNotThere) {
  {
    const auto store = open();
    store->begin();
    store->save_job(job("j1", 1));
    store->commit();
    store->begin();
    store->save_job(job("j2", 2));
  }
  EXPECT_EQ(open()->load().jobs.size(), 1u);
}

// An engine may say it at the commit only.
TEST_P(StoreTest, AGenerationNumberIsGivenOnce) {
  const auto store = open();
  store->begin();
  store->save_job(job("j1", 1));
  store->add_generation({"j1", generation(1, 1), 0});
  store->commit();
  const auto add = [&](const std::string& id, int64_t members) {
    const auto other = open();
    other->begin();
    other->add_generation({id, generation(1, members), 0});
    other->commit();
  };
  EXPECT_THROW(add("j1", 2), StoreError);
  EXPECT_THROW(add("j9", 2), StoreError) << "there is no such job";
  EXPECT_EQ(open()->load().generations.at(0).generation.members.size(), 1u);
}

TEST_P(StoreTest, TheLedgerGrowsByGenerationAndIsCutWhereStepsAreVoided) {
  const auto store = open();
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

TEST_P(StoreTest, AStepThatWasDealtAnewHasItsOwnRows) {
  const auto store = open();
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

TEST_P(StoreTest, StepsDealtAnewInTheSameWayShareTheirRows) {
  const auto store = open();
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

TEST_P(StoreTest, AStepIsKeptOnceUnlessItWasVoided) {
  const auto store = open();
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

// A child commits in a loop and acknowledges each commit through a pipe; it is killed in the middle. All acknowledged
// transactions must be there, and at most one more, whole.
TEST_P(StoreTest, AcknowledgedTransactionsSurviveKill9) {
  for (int round = 0; round < 3; ++round) {
    begin_anew();
    int acknowledged[2];
    ASSERT_EQ(pipe(acknowledged), 0);
    const pid_t child = fork();
    if (child == 0) {
      close(acknowledged[0]);
      const auto store = open();
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

    const auto store = open();
    const int64_t step = store->load().jobs.at(0).committed_step;
    EXPECT_GE(step, count);
    EXPECT_LE(step, count + 1);
    for (const LedgerRow& row : store->records().ledger("j1", {1, INT64_MAX})) EXPECT_EQ(row.last_step, step);
    EXPECT_EQ(static_cast<int64_t>(store->records().events("j1", 0, 100000).size()), step);
  }
}

HOLDFAST_ON_EACH_ENGINE(StoreTest);

class PostgresqlStoreTest : public testing::Test {
 protected:
  EngineDatabase database_{Engine::kPostgresql};
};

// The full disk of a server, played by a trigger that says what the server says then.
TEST_F(PostgresqlStoreTest, AFullDiskOfTheServerIsToldAndOverWhenThereIsRoom) {
  const auto on_server = [&](const char* sql) { PostgresqlServer::shared().query(database_.address(), sql); };
  auto store = database_.open();
  on_server(
      "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
      "RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = 'disk_full'; END $$");
  on_server("CREATE TRIGGER full_disk BEFORE INSERT ON jobs FOR EACH ROW EXECUTE FUNCTION full_disk()");
  try {
    store->begin();
    store->save_job(job("j1", 1));
    store->commit();
    FAIL() << "it was committed";
  } catch (const StoreFull& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("failed: could not extend file: No space left on device"));
  }
  on_server("DROP TRIGGER full_disk ON jobs");
  store = database_.open();
  EXPECT_TRUE(store->load().jobs.empty()) << "nothing of it is there";
  store->begin();
  store->save_job(job("j1", 1));
  store->commit();
  EXPECT_EQ(database_.open()->load().jobs.size(), 1U);
}

}  // namespace
}  // namespace holdfast::rendezvous
