#include "rendezvous/store/sqlite/files_in_place.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>

namespace holdfast::rendezvous {

// A path that cannot be looked at for another reason (a network file system that is away) proves nothing: it counts as there.
std::optional<FilesInPlace::Identity> FilesInPlace::identity_of(const std::string& path, bool& removed) {
  struct stat status {};
  removed = false;
  if (::stat(path.c_str(), &status) == 0) return Identity(status.st_dev, status.st_ino);
  removed = errno == ENOENT || errno == ENOTDIR || errno == ESTALE;
  return std::nullopt;
}

FilesInPlace::FilesInPlace(std::string database) {
  if (database == ":memory:") return;
  paths_ = {database, database + "-wal", database + "-shm"};
  bool removed = false;
  for (size_t i = 0; i < paths_.size(); ++i) opened_[i] = identity_of(paths_[i], removed);
}

FilesInPlace::Fate FilesInPlace::fate_of(size_t file) const {
  if (!opened_[file]) return Fate::kThere;
  bool removed = false;
  const auto now = identity_of(paths_[file], removed);
  if (removed) return Fate::kRemoved;
  return now && *now != *opened_[file] ? Fate::kReplaced : Fate::kThere;
}

FilesInPlace::Loss FilesInPlace::loss() const {
  if (fate_of(0) != Fate::kThere) return Loss::kOfAll;
  const Fate log = fate_of(1), index = fate_of(2);
  // A log of another database would be taken for this one's.
  if (log == Fate::kReplaced || index == Fate::kReplaced) return Loss::kOfAll;
  return log == Fate::kRemoved || index == Fate::kRemoved ? Loss::kOfLog : Loss::kNone;
}

std::string FilesInPlace::what_happened() const {
  for (size_t i = 0; i < paths_.size(); ++i) {
    const Fate fate = fate_of(i);
    if (fate != Fate::kThere)
      return fmt::format("{} was {}", paths_[i], fate == Fate::kRemoved ? "removed" : "replaced by another file");
  }
  return paths_[0] + " is in place again";
}

}  // namespace holdfast::rendezvous
