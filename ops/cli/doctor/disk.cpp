// Folders: is there room, how quickly is a small write durable, and does the file system keep what is written.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <vector>

#include "ops/cli/doctor/doctor.h"
#include "ops/cli/terminal/format.h"
#include "ops/cli/terminal/quantities.h"
#include "rendezvous/text/errno_text.h"

namespace holdfast::ops {
namespace {

using std::chrono::steady_clock;

constexpr int kSyncs = 21;
constexpr size_t kSmall = 4096, kLarge = 32 << 20;
constexpr double kFreeFail = 100e6, kFreeWarn = 5e9, kFreeShareWarn = 0.05;
constexpr double kSlowSync_s = 0.03;

std::string why() {
  return rendezvous::describe_errno(errno);
}

double seconds_since(steady_clock::time_point begin) {
  return std::chrono::duration<double>(steady_clock::now() - begin).count();
}

// A file of our own in the folder, gone at the end.
class Trial {
 public:
  explicit Trial(const std::string& folder) : path_(fmt::format("{}/.holdfast-doctor-{}", folder, getpid())) {
    file_ = open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  }
  ~Trial() {
    if (file_ < 0) return;
    close(file_);
    unlink(path_.c_str());
  }
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;
  bool made() const { return file_ >= 0; }

  // The time it took, or nothing with errno set.
  std::optional<double> write_durably(const std::vector<char>& bytes) {
    const auto begin = steady_clock::now();
    for (size_t done = 0; done < bytes.size();) {
      const ssize_t wrote = write(file_, bytes.data() + done, bytes.size() - done);
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote <= 0) return std::nullopt;
      done += static_cast<size_t>(wrote);
    }
    if (fsync(file_) != 0) return std::nullopt;
    return seconds_since(begin);
  }

 private:
  std::string path_;
  int file_ = -1;
};

// File systems that a checkpoint or a database should not lie on without a word; the numbers are statfs(2)'s.
std::string filesystem_of(const std::string& path) {
  struct statfs info {};
  if (statfs(path.c_str(), &info) != 0) return "";
  switch (static_cast<uint32_t>(info.f_type)) {
    case 0x6969:
      return "nfs";
    case 0xFF534D42:
    case 0xFE534D42:
      return "cifs";
    case 0x01021994:
      return "tmpfs";
    case 0x794C7630:
      return "overlay";
    default:
      return "";
  }
}

tl::expected<DiskSeen, std::string> measure(const std::string& path) {
  struct statvfs room {};
  if (statvfs(path.c_str(), &room) != 0) return tl::unexpected(why());
  DiskSeen seen;
  seen.free_bytes = static_cast<double>(room.f_bavail) * static_cast<double>(room.f_frsize);
  seen.total_bytes = static_cast<double>(room.f_blocks) * static_cast<double>(room.f_frsize);
  seen.filesystem = filesystem_of(path);
  if (seen.free_bytes < kFreeFail) return seen;  // not a byte of it is taken
  Trial trial(path);
  if (!trial.made()) return tl::unexpected(fmt::format("this user (uid {}) cannot write there: {}", getuid(), why()));
  std::vector<double> times;
  const std::vector<char> small(kSmall, 'h'), large(kLarge, 'h');
  for (int i = 0; i < kSyncs; ++i) {
    const auto time = trial.write_durably(small);
    if (!time) return tl::unexpected("cannot write there: " + why());
    times.push_back(*time);
  }
  const auto time = trial.write_durably(large);
  if (!time) return tl::unexpected("cannot write there: " + why());
  std::ranges::sort(times);
  seen.sync_s = times[times.size() / 2];
  seen.bytes_per_s = static_cast<double>(kLarge) / *time;
  return seen;
}

const char* name_of(FolderUse use) {
  return use == FolderUse::kData ? "data directory" : "checkpoints";
}

// The promise that this kind of file system does not keep, in words; "" when it keeps all.
std::string against(FolderUse use, const std::string& filesystem) {
  if (filesystem == "tmpfs") return "it is memory (tmpfs): a reboot empties it";
  if (use == FolderUse::kCheckpoints) return "";
  if (filesystem == "nfs" || filesystem == "cifs")
    return fmt::format("it is a network file system ({}), on which SQLite's write-ahead log is not safe", filesystem);
  if (filesystem == "overlay") return "it is a container's own layer (overlay): it goes with the container";
  return "";
}

}  // namespace

Check judge_disk(FolderUse use, const std::string& path, const DiskSeen& disk) {
  Check check{name_of(use), Verdict::kOk,
              fmt::format("{}: {} of {} free", path, bytes_text(disk.free_bytes), bytes_text(disk.total_bytes)), ""};
  if (disk.free_bytes < kFreeFail) {
    check.verdict = Verdict::kFail;
    check.seen += "; nothing more can be kept there";
    check.remedy =
        "free some: older checkpoints of jobs that have ended, logs, other people's files; the service and the jobs go "
        "on by themselves";
    return check;
  }
  check.seen += fmt::format("; {} until 4 KiB are durable, {} in large writes", seconds_text(disk.sync_s),
                            bytes_text(disk.bytes_per_s) + "/s");
  if (const std::string problem = against(use, disk.filesystem); !problem.empty()) {
    check.verdict = Verdict::kWarn;
    check.seen += "; " + problem;
    check.remedy = "use a folder on a local disk";
  } else if (disk.free_bytes < kFreeWarn && disk.free_bytes < kFreeShareWarn * disk.total_bytes) {
    check.verdict = Verdict::kWarn;
    check.remedy =
        "little is left: a checkpoint takes some 10 bytes a parameter, and a job has keep_last of them and one in the making";
  } else if (disk.sync_s > kSlowSync_s) {
    check.verdict = Verdict::kWarn;
    check.remedy =
        use == FolderUse::kData
            ? "slow: every commit of the service waits for that, up to ten times a second for each job; use another disk"
            : "slow: each shard of a checkpoint waits for that; training goes on meanwhile";
  }
  return check;
}

Check check_folder(FolderUse use, const std::string& named) {
  const std::string path = named.starts_with("file://") ? named.substr(7) : named;
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) {
    return {name_of(use), Verdict::kFail, path + ": no such folder here",
            use == FolderUse::kData ? "is --data_dir the one that the service was started with, and is its volume mounted?"
                                    : "mount it on every node under this path"};
  }
  const auto disk = measure(path);
  if (disk) return judge_disk(use, path, *disk);
  return {name_of(use), Verdict::kFail, fmt::format("{}: {}", path, disk.error()),
          use == FolderUse::kData ? "run this as the service's user (sudo -u holdfast)"
                                  : "run this as the workers' user, and see who owns it"};
}

}  // namespace holdfast::ops
