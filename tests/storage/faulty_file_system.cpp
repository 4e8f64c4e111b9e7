#include "tests/storage/faulty_file_system.h"

#include <algorithm>
#include <cerrno>

namespace holdfast::storage::testing {
namespace {

void apply(std::map<std::string, size_t>& names, const Disk::Change& change) {
  if (!change.removed.empty()) names.erase(change.removed);
  if (!change.added.empty()) names[change.added] = change.inode;
}

}  // namespace

Disk::Disk() {
  inodes.emplace_back();
  inodes[0].is_directory = true;
}

void Disk::lose_power(uint32_t seed) {
  std::mt19937 random(seed);
  // Seeds 0 and 1 are the extremes: no unsynced change is there, or all of them are.
  const auto kept = [&] { return seed == 0 ? false : seed == 1 ? true : random() % 2 == 0; };
  for (Inode& inode : inodes) {
    for (const Change& change : inode.unsynced) {
      if (kept()) apply(inode.durable_names, change);
    }
    inode.unsynced.clear();
    inode.names = inode.durable_names;
    const bool unsynced_bytes = inode.bytes != inode.durable_bytes;
    if (unsynced_bytes && seed == 1 && !inode.sync_failed) inode.durable_bytes = inode.bytes;
    if (unsynced_bytes && seed > 1) {
      // A length may be recorded before the contents: then the rest is zeros, or the former contents of the blocks.
      const size_t length = random() % (inode.bytes.size() + 1);
      const size_t there = inode.sync_failed ? std::min(inode.durable_bytes.size(), length) : random() % (length + 1);
      Bytes torn(inode.bytes.begin(), inode.bytes.begin() + static_cast<std::ptrdiff_t>(there));
      torn.resize(length, random() % 2 == 0 ? std::byte{0} : static_cast<std::byte>(random()));
      inode.durable_bytes = torn;
    }
    inode.bytes = inode.durable_bytes;
    inode.sync_failed = false;
  }
}

int FaultyFileSystem::begin() {
  const int64_t now = operations_++;
  if (fault_.at < 0 || now < fault_.at) return 0;
  const bool once = fault_.kind == Fault::Kind::kOnce || fault_.kind == Fault::Kind::kOnceDoneAnyway;
  if (once && now > fault_.at) return 0;
  return fault_.kind == Fault::Kind::kPowerOff ? EIO : fault_.error;
}

template <typename Work>
auto FaultyFileSystem::changing(const Work& work) -> decltype(work()) {
  const int error = begin();
  if (error != 0 && fault_.kind != Fault::Kind::kOnceDoneAnyway) return tl::unexpected(error);
  auto result = work();
  if (error != 0) return tl::unexpected(error);
  return result;
}

IoResult<size_t> FaultyFileSystem::find(const std::string& path) const {
  if (is_off()) return tl::unexpected(EIO);
  size_t inode = 0;
  for (size_t at = 0; at < path.size();) {
    const size_t end = std::min(path.find('/', at), path.size());
    const std::string name = path.substr(at, end - at);
    at = end + 1;
    if (name.empty()) continue;
    if (!disk_.inodes[inode].is_directory) return tl::unexpected(ENOTDIR);
    const auto found = disk_.inodes[inode].names.find(name);
    if (found == disk_.inodes[inode].names.end()) return tl::unexpected(ENOENT);
    inode = found->second;
  }
  return inode;
}

IoResult<size_t> FaultyFileSystem::parent(const std::string& path, std::string* name) const {
  const size_t slash = path.rfind('/');
  *name = path.substr(slash + 1);
  auto found = find(path.substr(0, slash));
  if (found && !disk_.inodes[*found].is_directory) return tl::unexpected(ENOTDIR);
  return found;
}

void FaultyFileSystem::change(size_t directory, const Disk::Change& change) {
  apply(disk_.inodes[directory].names, change);
  disk_.inodes[directory].unsynced.push_back(change);
}

IoResult<size_t> FaultyFileSystem::make(const std::string& path, bool directory) {
  std::string name;
  const auto folder = parent(path, &name);
  if (!folder) return folder;
  if (disk_.inodes[*folder].names.contains(name)) return tl::unexpected(EEXIST);
  const size_t inode = disk_.inodes.size();
  disk_.inodes.emplace_back();
  disk_.inodes[inode].is_directory = directory;
  change(*folder, {"", name, inode});
  return inode;
}

IoResult<int> FaultyFileSystem::create(const std::string& path, Readers) {
  return changing([&]() -> IoResult<int> {
    const auto inode = make(path, false);
    if (!inode) return tl::unexpected(inode.error());
    open_[next_file_] = *inode;
    return next_file_++;
  });
}

IoResult<size_t> FaultyFileSystem::write(int file, std::span<const std::byte> bytes) {
  constexpr size_t kBytesPerCall = 1500;  // nearly every write is short
  const int error = begin();
  const bool torn = error != 0 && fault_.kind != Fault::Kind::kOnceDoneAnyway;
  const size_t taken = std::min<size_t>(bytes.size(), torn ? 100 : kBytesPerCall);
  Bytes& into = disk_.inodes[open_.at(file)].bytes;
  into.insert(into.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(taken));
  if (error != 0) return tl::unexpected(error);
  return taken;
}

IoResult<void> FaultyFileSystem::sync(int file) {
  Disk::Inode& inode = disk_.inodes[open_.at(file)];
  const auto done = changing([&]() -> IoResult<void> {
    if (!inode.sync_failed) inode.durable_bytes = inode.bytes;
    return {};
  });
  if (!done) inode.sync_failed = true;
  return done;
}

// The file is closed even if the call fails.
IoResult<void> FaultyFileSystem::close(int file) {
  const int error = begin();
  open_.erase(file);
  if (error != 0) return tl::unexpected(error);
  return {};
}

IoResult<void> FaultyFileSystem::rename(const std::string& from, const std::string& to) {
  return changing([&]() -> IoResult<void> {
    std::string old_name, new_name;
    const auto folder = parent(from, &old_name), target = parent(to, &new_name);
    const auto inode = find(from);
    if (!folder || !target || !inode) return tl::unexpected(ENOENT);
    if (*folder != *target) return tl::unexpected(EXDEV);  // no caller needs it
    change(*folder, {old_name, new_name, *inode});
    return {};
  });
}

IoResult<void> FaultyFileSystem::unlink(const std::string& path) {
  return changing([&]() -> IoResult<void> {
    std::string name;
    const auto folder = parent(path, &name);
    const auto inode = find(path);
    if (!folder || !inode) return tl::unexpected(ENOENT);
    if (disk_.inodes[*inode].is_directory) return tl::unexpected(EISDIR);
    change(*folder, {name, "", 0});
    return {};
  });
}

IoResult<void> FaultyFileSystem::make_directory(const std::string& path) {
  return changing([&]() -> IoResult<void> {
    const auto made = make(path, true);
    if (!made) return tl::unexpected(made.error());
    return {};
  });
}

IoResult<void> FaultyFileSystem::remove_directory(const std::string& path) {
  return changing([&]() -> IoResult<void> {
    std::string name;
    const auto folder = parent(path, &name);
    const auto inode = find(path);
    if (!folder || !inode) return tl::unexpected(ENOENT);
    if (!disk_.inodes[*inode].is_directory) return tl::unexpected(ENOTDIR);
    if (!disk_.inodes[*inode].names.empty()) return tl::unexpected(ENOTEMPTY);
    change(*folder, {name, "", 0});
    return {};
  });
}

IoResult<void> FaultyFileSystem::sync_directory(const std::string& path) {
  return changing([&]() -> IoResult<void> {
    const auto inode = find(path);
    if (!inode) return tl::unexpected(inode.error());
    disk_.inodes[*inode].durable_names = disk_.inodes[*inode].names;
    disk_.inodes[*inode].unsynced.clear();
    return {};
  });
}

IoResult<Bytes> FaultyFileSystem::read(const std::string& path, int64_t bytes_max) {
  const auto inode = find(path);
  if (!inode) return tl::unexpected(inode.error());
  if (disk_.inodes[*inode].is_directory) return tl::unexpected(EISDIR);
  if (const auto bad = unreadable_.find(path); bad != unreadable_.end()) return tl::unexpected(bad->second);
  if (static_cast<int64_t>(disk_.inodes[*inode].bytes.size()) > bytes_max) return tl::unexpected(EFBIG);
  return disk_.inodes[*inode].bytes;
}

IoResult<std::vector<DirectoryEntry>> FaultyFileSystem::list(const std::string& path) {
  const auto inode = find(path);
  if (!inode) return tl::unexpected(inode.error());
  std::vector<DirectoryEntry> entries;
  for (const auto& [name, child] : disk_.inodes[*inode].names) {
    const bool directory = disk_.inodes[child].is_directory;
    entries.push_back({name, directory, !directory});
  }
  return entries;
}

IoResult<bool> FaultyFileSystem::is_directory(const std::string& path) {
  if (const auto bad = unreadable_.find(path); bad != unreadable_.end()) return tl::unexpected(bad->second);
  const auto inode = find(path);
  if (inode) return disk_.inodes[*inode].is_directory;
  if (inode.error() == ENOENT) return false;
  return tl::unexpected(inode.error());
}

IoResult<int64_t> FaultyFileSystem::free_bytes(const std::string&) {
  return 4096;
}

}  // namespace holdfast::storage::testing
