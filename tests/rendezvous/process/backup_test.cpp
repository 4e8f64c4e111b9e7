// Backups of a store that is being written, and restores: their refusals, the database and the checkpoints that they keep.
#include "rendezvous/process/backup.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "rendezvous/data_dir/directory_lock.h"
#include "rendezvous/store/job_store.h"
#include "rendezvous/store/sqlite/database.h"
#include "rendezvous/store/sqlite/schema.h"
#include "rendezvous/store/sqlite/store.h"
#include "tests/storage/checks.h"
#include "tests/storage/temporary_folder.h"

namespace holdfast::rendezvous {
namespace {

namespace fs = std::filesystem;
using storage::testing::holds;
using storage::testing::manifest_at;
using storage::testing::State;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

JobRow job(const std::string& id, int64_t number, const std::string& state, const std::string& spec = "{}") {
  JobRow row;
  row.id = id;
  row.number = number;
  row.spec = spec;
  row.state = state;
  row.stage = "running";
  row.cause = "start";
  row.intent = "run";
  row.resume = "[]";
  return row;
}

class Backup : public ::testing::Test {
 protected:
  Backup() { fs::create_directory(data_dir_); }

  std::string database() const { return data_dir_ + "/holdfast.sqlite"; }
  std::string copy(const std::string& name = "copy.sqlite") const { return folder_.path() + "/" + name; }
  void save(const std::vector<JobRow>& rows) const {
    const auto store = open_sqlite_store(database());
    store->begin();
    for (const JobRow& row : rows) store->save_job(row);
    store->commit();
  }
  static std::vector<std::string> jobs_in(const std::string& database) {
    std::vector<std::string> ids;
    for (const JobRow& row : open_sqlite_store(database)->load().jobs) ids.push_back(row.id);
    return ids;
  }
  std::unique_ptr<storage::ObjectStore> objects(const std::string& data_dir, const std::string& id) const {
    return *storage::open_directory_store(data_dir + "/checkpoints/" + id);
  }
  std::string error_of(const BackupOptions& options) const {
    const auto report = back_up(options);
    return report ? "" : report.error();
  }
  std::string error_of_restore(const std::string& from) const {
    const auto report = restore(from, data_dir_);
    return report ? "" : report.error();
  }
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& entry : fs::directory_iterator(folder_.path())) all.push_back(entry.path().filename());
    return all;
  }

  storage::testing::TemporaryFolder folder_;
  std::string data_dir_ = folder_.path() + "/service";
};

TEST_F(Backup, NamesTheContentsOfTheCopyAndWhatIsLeftOut) {
  save({job("j1", 1, "succeeded"), job("j2", 2, "running"), job("j3", 3, "paused", R"({"checkpoint_store":"/shared"})")});
  const auto report = back_up({.data_dir = data_dir_, .output = copy()});
  ASSERT_TRUE(report) << report.error();
  EXPECT_EQ(report->contents.jobs, 3);
  ASSERT_EQ(report->contents.open_jobs.size(), 2U);
  EXPECT_EQ(report->contents.open_jobs[0].id, "j2");
  EXPECT_EQ(report->contents.open_jobs[1].checkpoint_store, "/shared");
  EXPECT_EQ(report->contents.schema_version, schema_version_known());
  EXPECT_THAT(report->notes, Contains(HasSubstr("the checkpoints of j2, which lie in " + data_dir_ + "/checkpoints")));
  EXPECT_THAT(report->notes, Contains(HasSubstr("the checkpoints of j3, in folders of their own")));
  EXPECT_THAT(report->notes, Contains(HasSubstr("admin.token")));
  EXPECT_EQ(names().size(), 2U) << "the copy and the service's folder: nothing is left beside them";
  EXPECT_EQ(jobs_in(copy()), (std::vector<std::string>{"j1", "j2", "j3"}));
}

// Each commit writes two jobs, so a copy that has only one of them is not the state after a commit.
TEST_F(Backup, IsTheStateAfterACommitWhileTheServiceWrites) {
  const auto store = open_sqlite_store(database());
  std::atomic<bool> stop = false;
  std::atomic<int64_t> pairs = 0;
  std::thread writer([&] {
    for (int64_t n = 1; !stop; ++n) {
      store->begin();
      store->save_job(job(fmt::format("a{}", n), 2 * n, "running"));
      store->save_job(job(fmt::format("b{}", n), 2 * n + 1, "running"));
      store->commit();
      pairs = n;
    }
  });
  int64_t before = 0;
  for (int i = 0; i < 5; ++i) {
    while (pairs <= before) std::this_thread::yield();
    before = pairs;
    const auto report = back_up({.data_dir = data_dir_, .output = copy(std::to_string(i))});
    if (!report) ADD_FAILURE() << report.error();
    if (!report) break;
    EXPECT_EQ(report->contents.jobs % 2, 0) << "half a commit";
    EXPECT_GE(report->contents.jobs, 2 * before) << "what was committed before it began is in it";
  }
  stop = true;
  writer.join();
}

TEST_F(Backup, OverwritesNothingUnlessTold) {
  save({job("j1", 1, "running")});
  folder_.write_file("copy.sqlite", "mine");
  EXPECT_THAT(error_of({.data_dir = data_dir_, .output = copy()}), HasSubstr("--force"));
  EXPECT_EQ(folder_.read_file("copy.sqlite"), "mine");
  EXPECT_EQ(error_of({.data_dir = data_dir_, .output = copy(), .force = true}), "");
  EXPECT_EQ(jobs_in(copy()), std::vector<std::string>{"j1"});
  fs::create_directory(copy("folder"));
  EXPECT_THAT(error_of({.data_dir = data_dir_, .output = copy("folder"), .force = true}),
              HasSubstr("a folder is never replaced"));
  EXPECT_THAT(error_of({.data_dir = data_dir_, .output = copy("folder"), .with_checkpoints = true, .force = true}),
              HasSubstr("a folder is never replaced"));
}

TEST_F(Backup, WithoutADatabaseMakesNothing) {
  EXPECT_THAT(error_of({.data_dir = data_dir_, .output = copy()}), HasSubstr(database() + ": there is no such file"));
  EXPECT_FALSE(fs::exists(database())) << "SQLite would make one";
  EXPECT_FALSE(fs::exists(copy()));
  save({job("j1", 1, "running")});
  EXPECT_THAT(error_of({.data_dir = data_dir_, .output = folder_.path() + "/no/such/folder/copy"}),
              HasSubstr("unable to open"));
}

TEST_F(Backup, TakesTheCheckpointsOfOpenJobsAlongAndRestoreBringsThemBack) {
  save({job("j1", 1, "running"), job("j2", 2, "succeeded")});
  const State state(1), newer(2);
  for (const char* id : {"j1", "j2"}) {
    const auto store = objects(data_dir_, id);
    for (const auto& [step, at] : {std::pair{20, &state}, std::pair{40, &newer}}) {
      auto manifest = manifest_at(step);
      manifest.job = id;
      ASSERT_TRUE(storage::testing::ok(storage::write_checkpoint(*store, manifest, at->tensors())));
    }
  }
  const auto report = back_up({.data_dir = data_dir_, .output = copy("all"), .with_checkpoints = true});
  ASSERT_TRUE(report) << report.error();
  ASSERT_EQ(report->checkpoints.size(), 2U);
  EXPECT_EQ(report->checkpoints[0].step, 40) << "the newest first";
  EXPECT_FALSE(fs::exists(copy("all") + "/checkpoints/j2")) << "that one has ended";

  const std::string moved = folder_.path() + "/moved";
  const auto restored = restore(copy("all"), moved);
  ASSERT_TRUE(restored) << restored.error();
  EXPECT_EQ(restored->replaced, "");
  EXPECT_EQ(restored->checkpoints.size(), 2U);
  const auto there = objects(moved, "j1");
  EXPECT_TRUE(holds(*there, 20, state));
  EXPECT_TRUE(holds(*there, 40, newer));
  struct stat info {};
  ASSERT_EQ(stat(moved.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700U);
}

TEST_F(Backup, ADamagedCheckpointIsNamedAndEverythingElseIsTaken) {
  save({job("j1", 1, "running")});
  const auto store = objects(data_dir_, "j1");
  const State state(1);
  for (const int64_t step : {20, 40})
    ASSERT_TRUE(storage::testing::ok(storage::write_checkpoint(*store, manifest_at(step), state.tensors())));
  for (const auto& file : fs::recursive_directory_iterator(data_dir_ + "/checkpoints/j1")) {
    if (file.path().string().find("step-0000000020/shard") != std::string::npos)
      std::ofstream(file.path(), std::ios::app) << "x";
  }
  const auto report = back_up({.data_dir = data_dir_, .output = copy("all"), .with_checkpoints = true});
  ASSERT_TRUE(report) << report.error();
  ASSERT_EQ(report->checkpoints.size(), 1U) << "everything else is copied";
  EXPECT_EQ(report->checkpoints[0].step, 40);
  EXPECT_THAT(report->damaged, ElementsAre(HasSubstr("the checkpoint of j1 at step 20 is damaged and not in it")));
  EXPECT_FALSE(storage::testing::is_listed(*objects(copy("all"), "j1"), 20));
}

// A folder that cannot be opened is a volume that is not mounted: without a failure the copy would seem to be complete.
TEST_F(Backup, FailsWhereCheckpointsCannotBeRead) {
  save({job("j1", 1, "running")});
  EXPECT_THAT(error_of({.data_dir = data_dir_, .output = copy("all"), .with_checkpoints = true}),
              HasSubstr("cannot copy the checkpoints of j1"));
  EXPECT_EQ(names(), std::vector<std::string>{"service"}) << "neither a copy nor a part of one";
}

TEST_F(Backup, ARestoreThatCannotWriteTheCheckpointsLeavesTheDatabase) {
  save({job("j1", 1, "running")});
  const State state(1);
  ASSERT_TRUE(storage::testing::ok(storage::write_checkpoint(*objects(data_dir_, "j1"), manifest_at(20), state.tensors())));
  ASSERT_EQ(error_of({.data_dir = data_dir_, .output = copy("all"), .with_checkpoints = true}), "");
  save({job("j2", 2, "running")});
  fs::remove_all(data_dir_ + "/checkpoints/j1");
  fs::create_directories(data_dir_ + "/checkpoints/j1");
  std::ofstream(data_dir_ + "/checkpoints/j1/step-0000000020") << "in the way";
  const std::string error = error_of_restore(copy("all"));
  EXPECT_THAT(error, HasSubstr("cannot copy the checkpoints of j1"));
  EXPECT_THAT(error, HasSubstr("the database is as it was"));
  EXPECT_EQ(jobs_in(database()), (std::vector<std::string>{"j1", "j2"}));
}

TEST_F(Backup, ARestoreNamesDamagedCheckpointsOfTheBackup) {
  save({job("j1", 1, "running")});
  const State state(1);
  ASSERT_TRUE(storage::testing::ok(storage::write_checkpoint(*objects(data_dir_, "j1"), manifest_at(20), state.tensors())));
  ASSERT_EQ(error_of({.data_dir = data_dir_, .output = copy("all"), .with_checkpoints = true}), "");
  for (const auto& file : fs::recursive_directory_iterator(copy("all") + "/checkpoints/j1")) {
    if (file.path().filename().string().starts_with("shard")) std::ofstream(file.path(), std::ios::app) << "x";
  }
  const auto report = restore(copy("all"), folder_.path() + "/moved");
  ASSERT_TRUE(report) << report.error();
  EXPECT_THAT(report->damaged, ElementsAre(HasSubstr("is damaged in " + copy("all") + " and was not brought back")));
}

// Open jobs begin with the checkpoints of j1 and j2; no job needs those of the other ended jobs.
TEST_F(Backup, TakesTheCheckpointsThatOpenJobsGoOnFromAndNamesTheEndedJobsThatAreLeftOut) {
  JobRow resumed = job("j20", 20, "queued");
  resumed.resume = R"([{"kind":2,"step":20,"job":"j1","store":"","state_hash":""}])";
  JobRow named = job("j2", 2, "succeeded");
  named.name = "first";
  std::vector<JobRow> rows{job("j1", 1, "succeeded"), named, resumed,
                           job("j21", 21, "queued", R"({"after":"first","kind":"serve","init_from":"job:j3@20"})")};
  for (int64_t number = 3; number < 15; ++number) rows.push_back(job("j" + std::to_string(number), number, "failed"));
  save(rows);
  const State state(1);
  for (const JobRow& row : rows) {
    auto manifest = manifest_at(20);
    manifest.job = row.id;
    ASSERT_TRUE(storage::testing::ok(storage::write_checkpoint(*objects(data_dir_, row.id), manifest, state.tensors())));
  }
  const auto report = back_up({.data_dir = data_dir_, .output = copy("all"), .with_checkpoints = true});
  ASSERT_TRUE(report) << report.error();
  std::vector<std::string> copied;
  for (const CopiedCheckpoint& one : report->checkpoints) copied.push_back(one.job);
  EXPECT_THAT(copied, ElementsAre("j1", "j2", "j3", "j20", "j21"));
  EXPECT_THAT(report->notes,
              Contains(HasSubstr("checkpoints of ended jobs j4, j5, j6, j7, j8, j9, j10, j11, j12, j13 and 1 more")));
  const auto restored = restore(copy("all"), folder_.path() + "/moved");
  ASSERT_TRUE(restored) << restored.error();
  EXPECT_TRUE(holds(*objects(folder_.path() + "/moved", "j1"), 20, state));
}

TEST_F(Backup, FilesThatRootMakesBelongToTheOwnerOfTheDataDirectory) {
  if (geteuid() != 0) GTEST_SKIP() << "only root gives files away";
  save({job("j1", 1, "running")});
  const State state(1);
  ASSERT_TRUE(storage::testing::ok(storage::write_checkpoint(*objects(data_dir_, "j1"), manifest_at(20), state.tensors())));
  constexpr uid_t kOwner = 12345;
  const std::string moved = folder_.path() + "/moved";
  fs::create_directory(moved);
  for (const std::string& folder : {data_dir_, moved}) ASSERT_EQ(chown(folder.c_str(), kOwner, kOwner), 0);
  ASSERT_EQ(error_of({.data_dir = data_dir_, .output = copy("all"), .with_checkpoints = true}), "");
  ASSERT_TRUE(restore(copy("all"), moved));
  for (const std::string& folder : {copy("all"), moved}) {
    int64_t looked_at = 0;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      struct stat info {};
      ASSERT_EQ(lstat(entry.path().c_str(), &info), 0);
      EXPECT_EQ(info.st_uid, kOwner) << entry.path();
      EXPECT_EQ(info.st_gid, kOwner) << entry.path();
      ++looked_at;
    }
    EXPECT_GT(looked_at, 3);
  }
}

TEST_F(Backup, RestoreKeepsTheOldDatabaseWithItsLog) {
  save({job("j1", 1, "running")});
  ASSERT_EQ(error_of({.data_dir = data_dir_, .output = copy()}), "");
  {
    // As after kill -9: the log beside the database has rows that the file does not have.
    const auto store = open_sqlite_store(database());
    store->begin();
    store->save_job(job("j2", 2, "running"));
    store->commit();
    fs::copy_file(database(), copy("killed.sqlite"));
    fs::copy_file(database() + "-wal", copy("killed.sqlite-wal"));
  }
  fs::rename(copy("killed.sqlite"), database());
  fs::rename(copy("killed.sqlite-wal"), database() + "-wal");
  const auto report = restore(copy(), data_dir_);
  ASSERT_TRUE(report) << report.error();
  EXPECT_EQ(jobs_in(database()), std::vector<std::string>{"j1"});
  EXPECT_THAT(report->replaced, HasSubstr(database() + ".replaced-"));
  EXPECT_EQ(jobs_in(report->replaced), (std::vector<std::string>{"j1", "j2"})) << "nothing of it is lost";
}

TEST_F(Backup, ADatabaseThatWasRemovedBelowItsServiceComesBackFromTheSavedCopy) {
  save({job("j1", 1, "running", R"({"checkpoint_store":"/shared"})")});
  auto store = open_sqlite_store(database());
  fs::remove(database());
  store.reset();  // saves the copy
  EXPECT_THROW(open_sqlite_store(database()), StoreError);
  std::string rescued;
  for (const auto& entry : fs::directory_iterator(data_dir_))
    if (entry.path().filename().string().starts_with("holdfast.rescued-")) rescued = entry.path();
  EXPECT_EQ(error_of_restore(rescued), "");
  EXPECT_EQ(jobs_in(database()), std::vector<std::string>{"j1"});
}

TEST_F(Backup, ADamagedDatabaseIsKeptAsItIs) {
  save({job("j1", 1, "running")});
  ASSERT_EQ(error_of({.data_dir = data_dir_, .output = copy()}), "");
  std::ofstream(database(), std::ios::binary) << std::string(8192, 'x');
  const auto report = restore(copy(), data_dir_);
  ASSERT_TRUE(report) << report.error();
  EXPECT_EQ(jobs_in(database()), std::vector<std::string>{"j1"});
  EXPECT_EQ(fs::file_size(report->replaced), 8192U);
}

TEST_F(Backup, RestoreTakesTheFilesOfAStoppedServiceWithTheirLog) {
  {
    const auto store = open_sqlite_store(database());
    store->begin();
    store->save_job(job("j1", 1, "running"));
    store->commit();
    fs::copy_file(database(), copy("raw.sqlite"));
    fs::copy_file(database() + "-wal", copy("raw.sqlite-wal"));
  }
  const auto before = fs::last_write_time(copy("raw.sqlite"));
  const std::string moved = folder_.path() + "/moved";
  ASSERT_TRUE(restore(copy("raw.sqlite"), moved));
  EXPECT_EQ(jobs_in(moved + "/holdfast.sqlite"), std::vector<std::string>{"j1"});
  EXPECT_EQ(fs::last_write_time(copy("raw.sqlite")), before) << "the copy is not touched";
  EXPECT_TRUE(fs::exists(copy("raw.sqlite-wal")));
}

TEST_F(Backup, RestoreRefusesARunningService) {
  save({job("j1", 1, "running")});
  ASSERT_EQ(error_of({.data_dir = data_dir_, .output = copy()}), "");
  DirectoryLock running;
  ASSERT_TRUE(running.take(data_dir_, ""));
  const std::string error = error_of_restore(copy());
  EXPECT_THAT(error, HasSubstr("another service (pid " + std::to_string(getpid()) + ") runs on"));
  EXPECT_THAT(error, HasSubstr("stop it, restore"));
}

TEST_F(Backup, RestoreRefusesFilesThatAreNotABackupAndChangesNothing) {
  save({job("j1", 1, "running")});
  folder_.write_file("text",
                     "this is not a database, though it is long enough to be looked at as one: " + std::string(600, 'x'));
  folder_.write_file("empty", "");
  {
    SqliteDatabase other(copy("other.sqlite"));
    other.execute("CREATE TABLE t (x)");
  }
  ASSERT_EQ(error_of({.data_dir = data_dir_, .output = copy("newer.sqlite")}), "");
  {
    SqliteDatabase newer(copy("newer.sqlite"));
    newer.execute("INSERT INTO schema_version (version) VALUES (99)");
  }
  ASSERT_EQ(error_of({.data_dir = data_dir_, .output = copy("torn.sqlite")}), "");
  fs::resize_file(copy("torn.sqlite"), fs::file_size(copy("torn.sqlite")) / 4096 / 2 * 4096);
  fs::create_directory(copy("folder"));
  const std::pair<const char*, const char*> wrong[] = {
      {"text", "not a database"},     {"empty", "is empty"},          {"other.sqlite", "not one of a Holdfast service"},
      {"newer.sqlite", "version 99"}, {"torn.sqlite", "torn.sqlite"}, {"folder", "holdfast.sqlite: there is no such file"},
      {"nothing", "no such file"},
  };
  for (const auto& [name, says] : wrong) EXPECT_THAT(error_of_restore(copy(name)), HasSubstr(says)) << name;
  EXPECT_THAT(error_of_restore(data_dir_), HasSubstr("is the data directory itself"));
  EXPECT_EQ(jobs_in(database()), std::vector<std::string>{"j1"});
  for (const auto& entry : fs::directory_iterator(data_dir_))
    EXPECT_THAT(entry.path().filename().string(), ::testing::Not(HasSubstr(".re"))) << "neither .restoring nor .replaced";
}

TEST_F(Backup, AJobWithoutItsFolderGetsOne) {
  save({job("j1", 1, "running"), job("j2", 2, "failed")});
  ASSERT_EQ(error_of({.data_dir = data_dir_, .output = copy()}), "");
  const std::string moved = folder_.path() + "/moved";
  const auto report = restore(copy(), moved);
  ASSERT_TRUE(report) << report.error();
  EXPECT_TRUE(fs::is_directory(moved + "/checkpoints/j1"));
  EXPECT_FALSE(fs::exists(moved + "/checkpoints/j2"));
  EXPECT_THAT(report->notes, Contains(HasSubstr("j1 has no checkpoints here")));
}

}  // namespace
}  // namespace holdfast::rendezvous
