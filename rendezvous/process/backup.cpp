#include "rendezvous/process/backup.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <filesystem>
#include <functional>
#include <system_error>

#include "rendezvous/data_dir/data_set_files.h"
#include "rendezvous/data_dir/directory_lock.h"
#include "rendezvous/data_dir/file_owner.h"
#include "rendezvous/data_dir/object_folders.h"
#include "rendezvous/data_dir/restored_mark.h"
#include "rendezvous/process/backup_checkpoints.h"
#include "rendezvous/store/job_store.h"
#include "rendezvous/store/sqlite/rescue.h"
#include "rendezvous/text/errno_text.h"
#include "storage/file_system.h"

namespace holdfast::rendezvous {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDatabase = "holdfast.sqlite";
constexpr size_t kNamedMost = 10;  // jobs in one sentence

[[noreturn]] void fail(const std::string& doing, int error) {
  throw StoreError(fmt::format("{}: {}", doing, describe_errno(error)));
}

std::string parent_of(const std::string& path) {
  const std::string parent = fs::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

void sync_folder(const std::string& folder) {
  if (const auto synced = storage::posix_file_system()->sync_directory(folder); !synced)
    fail("cannot sync the folder " + folder, synced.error());
}

void sync_file(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool synced = file >= 0 && fsync(file) == 0;
  const int error = errno;
  if (file >= 0) close(file);
  if (!synced) fail("cannot sync " + path, error);
}

// A temporary file or folder that is removed at the end, unless keep() was called. Files of SQLite beside it go with it.
class Scratch {
 public:
  explicit Scratch(std::string path) : path_(std::move(path)) { clear(); }
  ~Scratch() {
    if (!kept_) clear();
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const std::string& path() const { return path_; }
  void keep() { kept_ = true; }

 private:
  void clear() const {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
    for (const char* beside : {"-wal", "-shm", "-journal"}) fs::remove(path_ + beside, ignored);
  }
  std::string path_;
  bool kept_ = false;
};

template <typename Report>
tl::expected<Report, std::string> failures_in_words(const std::function<Report()>& work) {
  try {
    return work();
  } catch (const std::exception& error) {
    return tl::unexpected(std::string(error.what()));
  }
}

// --- backup

void check_output(const BackupOptions& options) {
  std::error_code ignored;
  const auto status = fs::symlink_status(options.output, ignored);
  if (!fs::exists(status)) return;
  if (fs::is_directory(status) || options.with_checkpoints) {
    throw StoreError(
        fmt::format("{}: is there already, and a folder is never replaced: choose another --output", options.output));
  }
  if (!options.force)
    throw StoreError(fmt::format("{}: is there already: choose another --output, or --force to replace it", options.output));
  if (!fs::is_regular_file(status))
    throw StoreError(fmt::format("{}: is no regular file: choose another --output", options.output));
}

DatabaseContents copy_and_check(const std::string& data_dir, const std::string& to) {
  copy_database(fmt::format("{}/{}", data_dir, kDatabase), to);
  const DatabaseContents contents = inspect_database(to);
  sync_file(to);
  return contents;
}

// Without --force a file that has taken the name in the meantime stays: link(2) does not replace.
void give_name(Scratch& scratch, const std::string& output, bool replace) {
  const bool linked = !replace && link(scratch.path().c_str(), output.c_str()) == 0;
  if (!linked && (!replace || rename(scratch.path().c_str(), output.c_str()) != 0))
    fail("cannot name the copy " + output, errno);
  if (!linked) scratch.keep();
  sync_folder(parent_of(output));
}

bool kept_by_service(const OpenJob& job) {
  return job.checkpoint_store.empty();
}

std::string list_of(const std::vector<std::string>& ids) {
  const size_t named = std::min(ids.size(), kNamedMost);
  std::string text;
  for (size_t i = 0; i < named; ++i) text += (i == 0 ? "" : ", ") + ids[i];
  return ids.size() > named ? fmt::format("{} and {} more", text, ids.size() - named) : text;
}

// Whether the job's folder below `data_dir` has anything in it.
bool has_objects(const std::string& data_dir, const std::string& job) {
  std::error_code ignored;
  const std::string folder = objects_folder(data_dir, job);
  return fs::is_directory(folder, ignored) && !fs::is_empty(folder, ignored);
}

// The jobs whose checkpoints belong in a backup with checkpoints. The folder of an open job must be there; the folder of an
// ended job may have been removed by hand.
std::vector<std::string> jobs_to_copy(const std::string& data_dir, const DatabaseContents& contents) {
  std::vector<std::string> jobs;
  for (const EndedJob& job : contents.ended_jobs) {
    if (job.gone_on_from && has_objects(data_dir, job.id)) jobs.push_back(job.id);
  }
  for (const OpenJob& job : contents.open_jobs) {
    if (kept_by_service(job)) jobs.push_back(job.id);
  }
  return jobs;
}

// Sentences about checkpoints that are not in the backup.
std::vector<std::string> missing_checkpoints(const BackupOptions& options, const DatabaseContents& contents) {
  const std::vector<std::string> kept = jobs_to_copy(options.data_dir, contents);
  std::vector<std::string> shared, ended, sentences;
  for (const OpenJob& job : contents.open_jobs) {
    if (!kept_by_service(job)) shared.push_back(job.id);
  }
  for (const EndedJob& job : contents.ended_jobs) {
    if (!job.gone_on_from && has_objects(options.data_dir, job.id)) ended.push_back(job.id);
  }
  if (!kept.empty() && !options.with_checkpoints) {
    sentences.push_back(
        fmt::format("not in it: the checkpoints of {}, which lie in {}/checkpoints: --with_checkpoints takes them along",
                    list_of(kept), options.data_dir));
  }
  if (!shared.empty())
    sentences.push_back(fmt::format("not in it: the checkpoints of {}, in folders of their own", list_of(shared)));
  if (!ended.empty()) {
    sentences.push_back(fmt::format("not in it: checkpoints of ended jobs {}; copy their folders in {}/checkpoints by hand",
                                    list_of(ended), options.data_dir));
  }
  return sentences;
}

void copy_all_checkpoints(const BackupOptions& options, const std::string& to, BackupReport& report) {
  for (const std::string& job : jobs_to_copy(options.data_dir, report.contents)) {
    const auto copies = copy_checkpoints(options.data_dir, to, job);
    if (!copies) throw StoreError(copies.error());
    report.checkpoints.insert(report.checkpoints.end(), copies->copied.begin(), copies->copied.end());
    for (const DamagedCheckpoint& one : copies->damaged) {
      report.damaged.push_back(
          fmt::format("the checkpoint of {} at step {} is damaged and not in it: {}", one.job, one.step, one.why));
    }
  }
}

BackupReport make_backup(const BackupOptions& options) {
  check_output(options);
  Scratch scratch(fmt::format("{}.partial-{}", options.output, getpid()));
  BackupReport report;
  if (!options.with_checkpoints) {
    report.contents = copy_and_check(options.data_dir, scratch.path());
    give_to_owner_of(options.data_dir, scratch.path());
    give_name(scratch, options.output, options.force);
  } else {
    if (mkdir(scratch.path().c_str(), 0700) != 0) fail("cannot make the folder " + scratch.path(), errno);
    report.contents = copy_and_check(options.data_dir, fmt::format("{}/{}", scratch.path(), kDatabase));
    copy_all_checkpoints(options, scratch.path(), report);
    give_to_owner_of(options.data_dir, scratch.path());
    sync_folder(scratch.path());
    // rename(2) replaces an empty folder and nothing else.
    if (rename(scratch.path().c_str(), options.output.c_str()) != 0) fail("cannot name the copy " + options.output, errno);
    scratch.keep();
    sync_folder(parent_of(options.output));
  }
  report.notes = missing_checkpoints(options, report.contents);
  if (const auto sets = DataSetFiles::names_in(options.data_dir); !sets.empty()) {
    report.notes.push_back(fmt::format("not in it: the data sets {}; copy {}/data by hand, or push them again after a restore",
                                       list_of(sets), options.data_dir));
  }
  report.notes.push_back(fmt::format("not in it: {0}/admin.token and {0}/worker.token", options.data_dir));
  return report;
}

// --- restore

std::string utc_stamp() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y%m%dT%H%M%SZ", &parts);
  return text;
}

void make_data_dir(const std::string& data_dir) {
  std::error_code error;
  const bool existed = fs::exists(data_dir, error);
  fs::create_directories(data_dir, error);
  if (error) throw StoreError(fmt::format("cannot make the data directory {}: {}", data_dir, error.message()));
  if (!existed) chmod(data_dir.c_str(), 0700);
}

// Copies a database to `to` and checks it there. A raw copy of a stopped service's files may have a write-ahead log beside it.
DatabaseContents take_in(const std::string& from, const std::string& to) {
  insist_on_file(from);
  std::error_code error;
  fs::copy_file(from, to, error);
  if (!error && fs::exists(from + "-wal")) fs::copy_file(from + "-wal", to + "-wal", error);
  if (error) throw StoreError(fmt::format("cannot copy {} to {}: {}", from, to, error.message()));
  chmod(to.c_str(), 0600);
  try {
    fold_write_ahead_log(to);
    const DatabaseContents contents = inspect_database(to);
    sync_file(to);
    return contents;
  } catch (const StoreError& wrong) {
    throw StoreError(fmt::format("{} cannot be restored, and nothing was changed: {}", from, wrong.what()));
  }
}

// Gives the old database a second name and returns that name; "" when there is no old database. If its write-ahead log cannot
// be folded in, because one of them is damaged, the log is kept beside it.
std::string keep_old(const std::string& database) {
  if (!fs::exists(database)) return "";
  try {
    fold_write_ahead_log(database);
  } catch (const StoreError&) {
    // damaged: kept as it is
  }
  const std::string stamped = fmt::format("{}.replaced-{}", database, utc_stamp());
  std::string kept = stamped;
  for (int more = 2; link(database.c_str(), kept.c_str()) != 0; ++more) {
    if (errno != EEXIST) fail(fmt::format("cannot keep {} as {}", database, kept), errno);
    kept = fmt::format("{}-{}", stamped, more);  // another restore in the same second
  }
  if (fs::exists(database + "-wal") && link((database + "-wal").c_str(), (kept + "-wal").c_str()) != 0)
    fail(fmt::format("cannot keep {}-wal as {}-wal", database, kept), errno);
  sync_folder(parent_of(database));
  return kept;
}

// A write-ahead log at `database` belongs to the old database. It must be gone before the new database gets the name.
void swap_in(Scratch& fresh, const std::string& database) {
  std::error_code error;
  for (const char* beside : {"-wal", "-shm"}) {
    fs::remove(database + beside, error);
    if (error) fail(fmt::format("cannot remove {}{}", database, beside), error.value());
  }
  sync_folder(parent_of(database));
  if (rename(fresh.path().c_str(), database.c_str()) != 0) fail("cannot put the copy in place as " + database, errno);
  fresh.keep();
  sync_folder(parent_of(database));
}

void bring_back_checkpoints(const std::string& from, const std::string& data_dir, const std::string& job,
                            RestoreReport& report) {
  const auto copies = copy_checkpoints(from, data_dir, job);
  if (!copies) throw StoreError(fmt::format("{}; the database is as it was", copies.error()));
  report.checkpoints.insert(report.checkpoints.end(), copies->copied.begin(), copies->copied.end());
  for (const DamagedCheckpoint& one : copies->damaged) {
    report.damaged.push_back(fmt::format("the checkpoint of {} at step {} is damaged in {} and was not brought back: {}",
                                         one.job, one.step, from, one.why));
  }
}

// `from`: a backup with checkpoints, or "". Makes the folders that open jobs lack, because a running service takes a missing
// folder for a volume that is not mounted, and does not make it.
void bring_back_folders(const std::string& from, const std::string& data_dir, RestoreReport& report) {
  const auto lies_in = [](const std::string& place, const std::string& job) {
    std::error_code ignored;
    return !place.empty() && fs::is_directory(objects_folder(place, job), ignored);
  };
  for (const EndedJob& job : report.contents.ended_jobs) {
    if (lies_in(from, job.id)) bring_back_checkpoints(from, data_dir, job.id, report);
  }
  for (const OpenJob& job : report.contents.open_jobs) {
    if (!kept_by_service(job)) continue;
    if (lies_in(from, job.id)) bring_back_checkpoints(from, data_dir, job.id, report);
    if (lies_in(data_dir, job.id)) continue;
    const auto made = make_objects_folder(data_dir, job.id);
    if (!made) throw StoreError(made.error().message);
    report.notes.push_back(
        fmt::format("{} has no checkpoints here: it goes on from its workers' memory if they still run, and else from its "
                    "beginning; copy its folder to {} if there is one",
                    job.id, objects_folder(data_dir, job.id)));
  }
  give_to_owner_of(data_dir, data_dir + "/checkpoints");
}

RestoreReport make_restore(const std::string& from, const std::string& data_dir) {
  make_data_dir(data_dir);
  DirectoryLock lock;
  if (const auto taken = lock.take(data_dir, "stop it, restore, and start it again"); !taken) throw StoreError(taken.error());
  give_to_owner_of(data_dir, data_dir + "/service.lock");
  std::error_code unreadable;
  const bool folder = fs::is_directory(from, unreadable);
  const std::string database = fmt::format("{}/{}", data_dir, kDatabase);
  if (folder && fs::equivalent(from, data_dir))
    throw StoreError(fmt::format("{} is the data directory itself: name a backup", from));
  Scratch fresh(database + ".restoring");
  RestoreReport report;
  report.contents = take_in(folder ? fmt::format("{}/{}", from, kDatabase) : from, fresh.path());
  give_to_owner_of(data_dir, fresh.path());
  bring_back_folders(folder ? from : "", data_dir, report);
  set_restored_mark(data_dir);
  give_to_owner_of(data_dir, restored_mark(data_dir));
  report.replaced = keep_old(database);
  swap_in(fresh, database);
  remove_lost_mark(database);
  return report;
}

}  // namespace

tl::expected<BackupReport, std::string> back_up(const BackupOptions& options) {
  return failures_in_words<BackupReport>([&] { return make_backup(options); });
}

tl::expected<RestoreReport, std::string> restore(const std::string& from, const std::string& data_dir) {
  return failures_in_words<RestoreReport>([&] { return make_restore(from, data_dir); });
}

}  // namespace holdfast::rendezvous
