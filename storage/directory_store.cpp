// Objects as files below a folder.
//
// Promises: an object is written under a temporary name in its own folder, synced, renamed, and then every folder from
// there up to the store's is synced, and by the first put the one that holds the store's, so that neither the bytes, the name
// nor a folder made on the way, by whomever, can be lost after success. Nothing is kept in memory about what is on disk: other
// processes may write and remove at the same time.
// Refuses: to make the store's own folder again after it vanished (an unmounted volume must not be written beside).
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <random>
#include <system_error>

#include "storage/failure.h"
#include "storage/file_system.h"

namespace holdfast::storage {
namespace {

constexpr auto kUnavailable = Error::Code::kUnavailable;
constexpr std::string_view kTemporaryPrefix = ".tmp-";  // not a valid key, so never taken for an object

std::string error_text(int error) {
  return std::generic_category().message(error);
}

std::string parent_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// The name of `folder` is durable after it, unless the folder that it is in is out of this user's sight: then whoever made
// `folder` there answers for it.
IoResult<void> sync_name(const std::string& folder, FileSystem& files) {
  if (folder == "/" || folder == ".") return {};
  IoResult<void> synced = files.sync_directory(parent_of(folder));
  if (!synced && synced.error() == EACCES) return {};
  return synced;
}

std::string temporary_name() {
  std::random_device device;
  return fmt::format("{}{:08x}{:08x}", kTemporaryPrefix, device(), device());
}

std::string advice(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return "free space there, keep fewer checkpoints, or choose another folder";
    case EROFS:
      return "the file system is mounted read-only, which also happens after a disk error: look at the system log and mount "
             "it writable";
    case EACCES:
    case EPERM:
      return "give the user that runs Holdfast the right to write there";
    case ENOENT:
      return "the folder is gone: mount or make it again";
    case EEXIST:
    case ENOTDIR:
    case EISDIR:
      return "something else is in the way: move it elsewhere";
    case EFBIG:
      return "the largest file allowed is smaller than that: raise the limit (ulimit -f)";
    case EMFILE:
    case ENFILE:
      return "too many files are open: raise the limit (ulimit -n)";
    default:
      return "look at the system log for errors of the disk or the network file system";
  }
}

// Of a read: the bytes are lost, as far as anyone can tell, and a second try would hang whoever waits for them.
bool unreadable(int error) {
  return error == EIO || error == EBADMSG || error == EUCLEAN;  // medium; checksum; structure of the file system
}

Error::Code code_of(int error) {
  return error == ENOSPC || error == EDQUOT ? Error::Code::kNoSpace : kUnavailable;
}

class DirectoryStore : public ObjectStore {
 public:
  DirectoryStore(std::string root, std::shared_ptr<FileSystem> files) : root_(std::move(root)), files_(std::move(files)) {}

  Result<void> put(const std::string& key, std::span<const std::byte> bytes) override;
  Result<Bytes> get(const std::string& key) override;
  Result<std::vector<std::string>> list(const std::string& prefix) override;
  Result<void> remove(const std::string& key) override;
  Result<std::vector<std::string>> remove_unfinished(std::span<const std::string> spared) override;
  std::string describe() const override { return root_; }

 private:
  std::string path_of(const std::string& key) const { return root_ + "/" + key; }
  // The folders between the store's and the object's, outermost first: for "a/b/c": root/a, root/a/b.
  std::vector<std::string> folders_of(const std::string& key) const;

  Step put_once(const std::string& key, std::span<const std::byte> bytes);
  Step sync_folders(const std::string& key);
  Step remove_name(const std::string& path);
  Step remove_empty_folders(const std::string& key);
  bool root_vanished() const;

  // Calls visit(folder, name) for every file below the store's folders for which enter(folder) holds; folders are "" or "a/b/".
  template <typename Enter, typename Visit>
  Result<void> walk(const Enter& enter, const Visit& visit) const;

  Error put_error(const std::string& key, size_t bytes, const FailedCall& failure) const;
  Error error(const std::string& what, const FailedCall& failure) const;

  std::string root_;
  std::shared_ptr<FileSystem> files_;
  std::atomic<bool> root_is_durable_ = false;
};

std::vector<std::string> DirectoryStore::folders_of(const std::string& key) const {
  std::vector<std::string> folders;
  for (size_t slash = key.find('/'); slash != std::string::npos; slash = key.find('/', slash + 1)) {
    folders.push_back(path_of(key.substr(0, slash)));
  }
  return folders;
}

bool DirectoryStore::root_vanished() const {
  const IoResult<bool> there = files_->is_directory(root_);
  return there && !*there;
}

Error DirectoryStore::error(const std::string& what, const FailedCall& failure) const {
  if (failure.error == ENOENT && root_vanished()) {
    return {kUnavailable,
            fmt::format("{}: the folder {} has vanished: is its volume still mounted? It is not made again here", what, root_)};
  }
  return {code_of(failure.error),
          fmt::format("{}: {}: {}: {}", what, failure.call, error_text(failure.error), advice(failure.error))};
}

Error DirectoryStore::put_error(const std::string& key, size_t bytes, const FailedCall& failure) const {
  std::string room;
  if (failure.error == ENOSPC || failure.error == EDQUOT) {
    if (const IoResult<int64_t> free = files_->free_bytes(root_)) room = fmt::format(", {} free", *free);
  }
  return error(fmt::format("cannot write {} ({} bytes needed{})", path_of(key), bytes, room), failure);
}

Result<void> DirectoryStore::put(const std::string& key, std::span<const std::byte> bytes) {
  if (auto valid = insist_on_key(key, describe()); !valid) return valid;
  if (bytes.size() > kObjectBytesMax) {
    return fail(Error::Code::kRefused, "cannot write {}: {} bytes are more than an object may have ({})", path_of(key),
                bytes.size(), kObjectBytesMax);
  }
  // A folder that is empty is removed by whoever removed the last object in it, perhaps just after it was found here, and
  // perhaps again and again: each try loses with some chance, on a busy machine with more than half.
  constexpr int kAttempts = 1000;
  Step written;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    written = put_once(key, bytes);
    if (written) return {};
    const bool may_pass = written.error().error == ENOENT || written.error().error == EEXIST;
    if (!may_pass || root_vanished()) break;
  }
  return tl::unexpected(put_error(key, bytes.size(), written.error()));
}

Step DirectoryStore::put_once(const std::string& key, std::span<const std::byte> bytes) {
  for (const std::string& folder : folders_of(key)) {
    const IoResult<void> made = files_->make_directory(folder);
    if (!made && made.error() != EEXIST) return step(made, "make the folder " + folder);
  }
  const std::string path = path_of(key);
  const std::string temporary = parent_of(path) + "/" + temporary_name();
  // A temporary file that stays behind is removed by remove_unfinished.
  if (Step written = write_and_rename(*files_, temporary, path, bytes); !written) return written;
  return sync_folders(key);
}

// All of them, each time, made by this call or not: the process that made one may not have synced its parent yet. The same
// goes for the store's own folder, whose maker may have been killed between the two; once is enough for it.
Step DirectoryStore::sync_folders(const std::string& key) {
  std::vector<std::string> folders = folders_of(key);
  folders.insert(folders.begin(), root_);
  for (auto folder = folders.rbegin(); folder != folders.rend(); ++folder) {
    if (Step synced = step(files_->sync_directory(*folder), "fsync the folder " + *folder); !synced) return synced;
  }
  if (root_is_durable_) return {};
  Step synced = step(sync_name(root_, *files_), "fsync the folder " + parent_of(root_));
  if (synced) root_is_durable_ = true;
  return synced;
}

Result<Bytes> DirectoryStore::get(const std::string& key) {
  if (auto valid = insist_on_key(key, describe()); !valid) return tl::unexpected(valid.error());
  const std::string path = path_of(key);
  IoResult<Bytes> bytes = files_->read(path, kObjectBytesMax);
  if (bytes) return std::move(*bytes);
  const int failed = bytes.error();
  if (failed == EFBIG) {
    return fail(Error::Code::kCorrupt,
                "{} is larger than anything Holdfast writes ({} bytes): it was altered or is another program's", path,
                kObjectBytesMax);
  }
  if (failed == ENXIO)
    return fail(Error::Code::kCorrupt, "{} is no regular file (a pipe, a socket or a device): it is another program's", path);
  if ((failed == ENOENT && !root_vanished()) || failed == ENOTDIR || failed == EISDIR) {
    return fail(Error::Code::kNotFound, "{}: there is no such file", path);
  }
  if (unreadable(failed)) {
    return fail(Error::Code::kCorrupt,
                "cannot read {}: {}: the disk does not give back what was written: look at the system log, and take another "
                "checkpoint",
                path, error_text(failed));
  }
  return tl::unexpected(error("cannot read " + path, {failed, "read"}));
}

template <typename Enter, typename Visit>
Result<void> DirectoryStore::walk(const Enter& enter, const Visit& visit) const {
  std::vector<std::string> folders{""};
  while (!folders.empty()) {
    const std::string folder = folders.back();
    folders.pop_back();
    const std::string path = folder.empty() ? root_ : path_of(folder.substr(0, folder.size() - 1));
    const IoResult<std::vector<DirectoryEntry>> entries = files_->list(path);
    if (!entries) {
      if (entries.error() == ENOENT && !folder.empty()) continue;  // removed meanwhile
      return tl::unexpected(error("cannot list " + path, {entries.error(), "read the folder"}));
    }
    for (const DirectoryEntry& entry : *entries) {
      if (entry.is_file) visit(folder, entry.name);
      const std::string inner = folder + entry.name + "/";
      if (entry.is_directory && valid_key(entry.name) && enter(inner)) folders.push_back(inner);
    }
  }
  return {};
}

Result<std::vector<std::string>> DirectoryStore::list(const std::string& prefix) {
  std::vector<std::string> keys;
  const auto done = walk([&](const std::string& folder) { return folder.starts_with(prefix) || prefix.starts_with(folder); },
                         [&](const std::string& folder, const std::string& name) {
                           if (valid_key(name) && (folder + name).starts_with(prefix)) keys.push_back(folder + name);
                         });
  if (!done) return tl::unexpected(done.error());
  std::ranges::sort(keys);
  return keys;
}

Step DirectoryStore::remove_name(const std::string& path) {
  const IoResult<void> unlinked = files_->unlink(path);
  // Not there: perhaps removed by someone who was stopped before the sync, so it is synced again below.
  if (!unlinked && unlinked.error() != ENOENT && unlinked.error() != ENOTDIR) return step(unlinked, "unlink " + path);
  const IoResult<void> synced = files_->sync_directory(parent_of(path));
  if (!synced && synced.error() != ENOENT && synced.error() != ENOTDIR)
    return step(synced, "fsync the folder " + parent_of(path));
  return {};
}

// From the object's folder outwards, as far as they are empty. A folder that is not empty, or gone, is left as it is.
Step DirectoryStore::remove_empty_folders(const std::string& key) {
  const std::vector<std::string> folders = folders_of(key);
  for (auto folder = folders.rbegin(); folder != folders.rend(); ++folder) {
    const IoResult<void> removed = files_->remove_directory(*folder);
    if (!removed) {
      const int failed = removed.error();
      if (failed == ENOTEMPTY || failed == EEXIST || failed == ENOTDIR) return {};
      if (failed == ENOENT) continue;
      return step(removed, "remove the folder " + *folder);
    }
    const IoResult<void> synced = files_->sync_directory(parent_of(*folder));
    if (!synced && synced.error() != ENOENT) return step(synced, "fsync the folder " + parent_of(*folder));
  }
  return {};
}

Result<void> DirectoryStore::remove(const std::string& key) {
  if (auto valid = insist_on_key(key, describe()); !valid) return valid;
  const std::string path = path_of(key);
  Step removed = remove_name(path);
  if (removed) removed = remove_empty_folders(key);
  if (!removed) return tl::unexpected(error("cannot remove " + path, removed.error()));
  if (root_vanished()) return tl::unexpected(error("cannot remove " + path, {ENOENT, "unlink"}));
  return {};
}

Result<std::vector<std::string>> DirectoryStore::remove_unfinished(std::span<const std::string> spared) {
  std::vector<std::string> unfinished;
  const auto enter = [&](const std::string& folder) {
    return std::ranges::none_of(spared, [&](const std::string& prefix) { return folder.starts_with(prefix); });
  };
  const auto done = walk(enter, [&](const std::string& folder, const std::string& name) {
    if (name.starts_with(kTemporaryPrefix)) unfinished.push_back(folder + name);
  });
  if (!done) return tl::unexpected(done.error());
  for (const std::string& name : unfinished) {
    Step removed = remove_name(path_of(name));
    if (removed) removed = remove_empty_folders(name);
    if (!removed) return tl::unexpected(error("cannot remove " + path_of(name), removed.error()));
  }
  return unfinished;
}

}  // namespace

namespace {

// Makes `missing` (innermost first) below the folder `found`. Each folder's name is durable before anything is made in it,
// so of folders that are there at most the innermost can be one whose name is not: `found`, when its maker was killed.
Result<void> make_folders(const std::vector<std::string>& missing, const std::string& found, FileSystem& files) {
  const auto cannot = [](const std::string& folder, int error) {
    return fail(code_of(error), "cannot make the folder {}: {}: {}", folder, error_text(error), advice(error));
  };
  if (auto synced = sync_name(found, files); !synced) return cannot(missing.back(), synced.error());
  for (auto folder = missing.rbegin(); folder != missing.rend(); ++folder) {
    IoResult<void> made = files.make_directory(*folder);
    if (!made && made.error() == EEXIST && files.is_directory(*folder).value_or(false)) made = {};
    if (made) made = files.sync_directory(parent_of(*folder));
    if (!made) return cannot(*folder, made.error());
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<ObjectStore>> open_directory_store(const std::string& directory, MissingFolder missing_folder,
                                                          std::shared_ptr<FileSystem> files) {
  std::string root = directory;
  while (root.size() > 1 && root.ends_with('/')) root.pop_back();
  std::vector<std::string> missing;  // innermost first
  std::string found = root;
  for (;; found = parent_of(found)) {
    const IoResult<bool> there = files->is_directory(found);
    if (!there) {
      const bool reads = missing_folder == MissingFolder::kFail;
      if (reads && there.error() == ENOTDIR) return fail(Error::Code::kNotFound, "there is no folder {}", root);
      const Error::Code code = reads && unreadable(there.error()) ? Error::Code::kCorrupt : kUnavailable;
      return fail(code, "cannot open the folder {}: {}: {}: {}", root, found, error_text(there.error()), advice(there.error()));
    }
    if (*there || found == "/" || found == ".") break;
    missing.push_back(found);
  }
  if (!missing.empty()) {
    if (missing_folder == MissingFolder::kFail) return fail(Error::Code::kNotFound, "there is no folder {}", root);
    if (auto made = make_folders(missing, found, *files); !made) return tl::unexpected(made.error());
  }
  return std::make_unique<DirectoryStore>(root, std::move(files));
}

Result<std::unique_ptr<ObjectStore>> open_directory_store(const std::string& directory, MissingFolder missing) {
  if (directory.empty()) return fail(Error::Code::kRefused, "the folder for checkpoints is an empty name: give a path");
  return open_directory_store(directory, missing, posix_file_system());
}

}  // namespace holdfast::storage
