#include "rendezvous/data_dir/file_owner.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "rendezvous/store/job_store.h"
#include "rendezvous/text/errno_text.h"

namespace holdfast::rendezvous {
namespace {

namespace fs = std::filesystem;

void give(const std::string& path, const struct stat& owner) {
  if (lchown(path.c_str(), owner.st_uid, owner.st_gid) == 0 || errno == ENOENT) return;
  throw StoreError(
      fmt::format("cannot give {} to the data directory's owner (user {}): {}", path, owner.st_uid, describe_errno(errno)));
}

}  // namespace

void give_to_owner_of(const std::string& like, const std::string& path) {
  struct stat owner {};
  if (geteuid() != 0 || stat(like.c_str(), &owner) != 0) return;
  give(path, owner);
  std::error_code error;
  if (!fs::is_directory(fs::symlink_status(path, error))) return;
  for (auto entry = fs::recursive_directory_iterator(path, error); !error && entry != fs::end(entry); entry.increment(error))
    give(entry->path().string(), owner);
  if (error) throw StoreError(fmt::format("cannot list {}: {}", path, error.message()));
}

}  // namespace holdfast::rendezvous
