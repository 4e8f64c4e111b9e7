#include "rendezvous/backup.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <filesystem>
#include <functional>
#include <system_error>

#include "rendezvous/backup_checkpoints.h"
#include "rendezvous/directory_lock.h"
#include "rendezvous/job_store.h"
#include "rendezvous/object_folders.h"
#include "storage/file_system.h"

namespace holdfast::rendezvous {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDatabase = "holdfast.sqlite";

[[noreturn]] void fail(const std::string& doing, int error) {
  throw StoreError(fmt::format("{}: {}", doing, std::generic_category().message(error)));
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

// Removes what was made, unless it was kept.
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
tl::expected<Report, std::string> in_words(const std::function<Report()>& work) {
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

// Without --force whoever took the name meanwhile keeps it: link(2) does not replace.
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

std::string kinds_of_checkpoints(const BackupOptions& options, const std::vector<OpenJob>& jobs) {
  std::string kept, shared;
  for (const OpenJob& job : jobs) {
    std::string& list = kept_by_service(job) ? kept : shared;
    list += (list.empty() ? "" : ", ") + job.id;
  }
  std::string text;
  if (!kept.empty() && !options.with_checkpoints) {
    text += fmt::format("the checkpoints of {}, which lie in {}/checkpoints: --with_checkpoints takes them along", kept,
                        options.data_dir);
  }
  if (!shared.empty()) text += fmt::format("{}those of {}, in folders of their own", text.empty() ? "" : "; ", shared);
  return text;
}

BackupReport make_backup(const BackupOptions& options) {
  check_output(options);
  Scratch scratch(fmt::format("{}.partial-{}", options.output, getpid()));
  BackupReport report;
  if (!options.with_checkpoints) {
    report.contents = copy_and_check(options.data_dir, scratch.path());
    give_name(scratch, options.output, options.force);
  } else {
    if (mkdir(scratch.path().c_str(), 0700) != 0) fail("cannot make the folder " + scratch.path(), errno);
    report.contents = copy_and_check(options.data_dir, fmt::format("{}/{}", scratch.path(), kDatabase));
    for (const OpenJob& job : report.contents.open_jobs) {
      if (!kept_by_service(job)) continue;
      const auto copied = copy_checkpoints(options.data_dir, scratch.path(), job.id, report.notes);
      report.checkpoints.insert(report.checkpoints.end(), copied.begin(), copied.end());
    }
    sync_folder(scratch.path());
    // Onto an empty folder it would succeed; onto anything else it fails.
    if (rename(scratch.path().c_str(), options.output.c_str()) != 0) fail("cannot name the copy " + options.output, errno);
    scratch.keep();
    sync_folder(parent_of(options.output));
  }
  if (const auto checkpoints = kinds_of_checkpoints(options, report.contents.open_jobs); !checkpoints.empty())
    report.notes.push_back("not in it: " + checkpoints);
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

// A raw copy of a stopped service's files may have a write-ahead log.
DatabaseContents take_in(const std::string& from, const std::string& to) {
  std::error_code error;
  if (!fs::is_regular_file(from, error)) throw StoreError(fmt::format("{}: there is no such file", from));
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

// The old database under another name, with the write-ahead log that belongs to it, if that could not be folded in (it is
// damaged). "" when there was none.
std::string keep_old(const std::string& database) {
  if (!fs::exists(database)) return "";
  try {
    fold_write_ahead_log(database);
  } catch (const StoreError&) {
    // kept as it is
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

// A log beside it belongs to the old one and must be gone before the new one has the name.
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

// `from`: a backup with checkpoints, or "". A job's folder is made when it is submitted and never by a running service, for
// which one that is missing is a volume that has gone.
void bring_back_folders(const std::string& from, const std::string& data_dir, RestoreReport& report) {
  for (const OpenJob& job : report.contents.open_jobs) {
    if (!kept_by_service(job)) continue;
    std::error_code ignored;
    if (!from.empty() && fs::is_directory(objects_folder(from, job.id), ignored)) {
      const auto copied = copy_checkpoints(from, data_dir, job.id, report.notes);
      report.checkpoints.insert(report.checkpoints.end(), copied.begin(), copied.end());
    }
    if (fs::is_directory(objects_folder(data_dir, job.id), ignored)) continue;
    const auto made = make_objects_folder(data_dir, job.id);
    if (!made) throw StoreError(made.error().message);
    report.notes.push_back(
        fmt::format("{} has no checkpoints here: it goes on from its workers' memory if they still run, and else from its "
                    "beginning; copy its folder to {} if there is one",
                    job.id, objects_folder(data_dir, job.id)));
  }
}

RestoreReport make_restore(const std::string& from, const std::string& data_dir) {
  make_data_dir(data_dir);
  DirectoryLock lock;
  if (const auto taken = lock.take(data_dir, "stop it, restore, and start it again"); !taken) throw StoreError(taken.error());
  const bool folder = fs::is_directory(from);
  const std::string database = fmt::format("{}/{}", data_dir, kDatabase);
  if (folder && fs::equivalent(from, data_dir))
    throw StoreError(fmt::format("{} is the data directory itself: name a backup", from));
  Scratch fresh(database + ".restoring");
  RestoreReport report;
  report.contents = take_in(folder ? fmt::format("{}/{}", from, kDatabase) : from, fresh.path());
  bring_back_folders(folder ? from : "", data_dir, report);
  report.replaced = keep_old(database);
  swap_in(fresh, database);
  return report;
}

}  // namespace

tl::expected<BackupReport, std::string> back_up(const BackupOptions& options) {
  return in_words<BackupReport>([&] { return make_backup(options); });
}

tl::expected<RestoreReport, std::string> restore(const std::string& from, const std::string& data_dir) {
  return in_words<RestoreReport>([&] { return make_restore(from, data_dir); });
}

}  // namespace holdfast::rendezvous
