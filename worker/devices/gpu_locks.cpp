#include "worker/devices/gpu_locks.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string_view>

#include "rendezvous/text/errno_text.h"
#include "rendezvous/text/plain_text.h"

namespace holdfast::worker {
namespace {

constexpr int kNone = -1;

// Opens it, and makes it where it is not there. A file that is there is opened without O_CREAT, which Linux refuses for files
// of other users in folders such as /tmp.
int open_file(const std::string& path) {
  for (int tries = 0; tries < 2; ++tries) {
    const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (file != kNone || errno != ENOENT) return file;
    const int made = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (made != kNone) ::fchmod(made, 0666);  // other users' workers lock it, too
    if (made != kNone || errno != EEXIST) return made;
  }
  return kNone;
}

std::string holder_in(int file) {
  char said[200];
  const ssize_t length = ::pread(file, said, sizeof said, 0);
  const std::string holder(said, static_cast<size_t>(std::max<ssize_t>(0, length)));
  return holder.empty() || rendezvous::has_control_characters(holder) ? "another process" : holder;
}

}  // namespace

GpuLock::~GpuLock() {
  ::close(file_);
}

std::vector<std::string> GpuLocks::usual_folders() {
  const char* named = std::getenv("HOLDFAST_LOCKS");  // NOLINT(concurrency-mt-unsafe)
  if (named != nullptr && *named != '\0') return {named};
  return {"/dev/shm", "/tmp"};
}

tl::expected<std::unique_ptr<GpuLock>, GpuLocks::NotTaken> GpuLocks::take(const std::string& identity) const {
  std::string why;
  for (const std::string& folder : folders_) {
    const std::string path = fmt::format("{}/holdfast-gpu-{}.lock", folder, identity);
    const int file = open_file(path);
    auto lock = file == kNone ? nullptr : std::make_unique<GpuLock>(file);
    if (!lock || ::flock(file, LOCK_EX | LOCK_NB) != 0) {
      if (lock && errno == EWOULDBLOCK) return tl::unexpected(NotTaken{holder_in(file), ""});
      why += fmt::format("{}{}: {}", why.empty() ? "" : ", ", path, rendezvous::describe_errno(errno));
      continue;
    }
    const std::string holder = fmt::format("{} (process {})", holder_, ::getpid());
    if (::ftruncate(file, 0) != 0 || ::pwrite(file, holder.data(), holder.size(), 0) < 0) {
      // The name is for messages alone.
    }
    return lock;
  }
  return tl::unexpected(NotTaken{"", why});
}

}  // namespace holdfast::worker
