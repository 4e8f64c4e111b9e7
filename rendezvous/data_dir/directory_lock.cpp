#include "rendezvous/data_dir/directory_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "rendezvous/text/errno_text.h"

namespace holdfast::rendezvous {

DirectoryLock::~DirectoryLock() {
  if (file_ >= 0) close(file_);
}

tl::expected<void, std::string> DirectoryLock::take(const std::string& data_dir, const std::string& remedy) {
  const std::string path = data_dir + "/service.lock";
  file_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file_ < 0)
    return tl::unexpected(
        fmt::format("cannot open {}: {}; choose a --data_dir that can be written", path, describe_errno(errno)));
  if (flock(file_, LOCK_EX | LOCK_NB) != 0) {
    char holder[32] = {};
    if (pread(file_, holder, sizeof holder - 1, 0) <= 0) holder[0] = '?';
    return tl::unexpected(fmt::format("another service (pid {}) runs on the data directory {}: {}",
                                      std::string(holder, strcspn(holder, "\n")), data_dir, remedy));
  }
  const std::string pid = fmt::format("{}\n", getpid());
  if (ftruncate(file_, 0) != 0 || pwrite(file_, pid.data(), pid.size(), 0) < 0)
    return tl::unexpected(fmt::format("cannot write {}: {}", path, describe_errno(errno)));
  return {};
}

}  // namespace holdfast::rendezvous
