// The calls that the directory store makes to the operating system, one function each, so that tests can fail, tear or cut any
// of them.
//
// Every call returns 0's equivalent (a value) or an errno. Paths are absolute or relative to the working directory.
// posix_file_system() is the real one; it retries EINTR, and nothing else.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "storage/object_store.h"

namespace holdfast::storage {

template <typename T>
using IoResult = tl::expected<T, int>;  // the error is an errno

struct DirectoryEntry {
  std::string name;
  bool is_directory = false;
  bool is_file = false;  // a regular one; a link or device is neither
};

// Readers of a new file: as the process's umask allows, or its owner alone (for secrets).
enum class Readers : uint8_t { kAll, kOwner };

class FileSystem {
 public:
  virtual ~FileSystem() = default;

  // A new file, open for writing: EEXIST when the name is taken.
  virtual IoResult<int> create(const std::string& path, Readers readers) = 0;
  // Writes some of it, at the end of what was written, and returns how much: at least one byte.
  virtual IoResult<size_t> write(int file, std::span<const std::byte> bytes) = 0;
  // The file's bytes are durable after it; its name is not.
  virtual IoResult<void> sync(int file) = 0;
  // Ends `file`, on failure too.
  virtual IoResult<void> close(int file) = 0;
  virtual IoResult<void> rename(const std::string& from, const std::string& to) = 0;
  virtual IoResult<void> unlink(const std::string& path) = 0;
  virtual IoResult<void> make_directory(const std::string& path) = 0;
  // ENOTEMPTY when something is in it.
  virtual IoResult<void> remove_directory(const std::string& path) = 0;
  // The names in the directory are durable after it.
  virtual IoResult<void> sync_directory(const std::string& path) = 0;
  // EFBIG when it has more than `bytes_max` bytes, before any memory is taken; EISDIR of a folder, ENXIO of what is no regular
  // file either, without waiting for anybody to write to it.
  virtual IoResult<Bytes> read(const std::string& path, int64_t bytes_max) = 0;
  virtual IoResult<std::vector<DirectoryEntry>> list(const std::string& path) = 0;
  virtual IoResult<bool> is_directory(const std::string& path) = 0;   // false when nothing is there
  virtual IoResult<int64_t> free_bytes(const std::string& path) = 0;  // to this user
};

// When bytes are written: at once, or when the processors have nothing else to do and now and then where they always have
// (in_background of parallel.h), for who shares a machine with training.
enum class Writing : uint8_t { kAtOnce, kInBackground };

// `stop`, which outlives it: a read that is under way when it becomes true ends soon, with ECANCELED.
std::shared_ptr<FileSystem> posix_file_system(Writing writing = Writing::kAtOnce, const std::atomic<bool>* stop = nullptr);

struct FailedCall {  // to the file system
  int error;         // errno
  std::string call;  // "rename /a/b"
};
using Step = tl::expected<void, FailedCall>;

template <typename T>
Step step(const IoResult<T>& result, const std::string& call) {
  if (!result) return tl::unexpected(FailedCall{result.error(), call});
  return {};
}

// Writes `bytes` to a new file `temporary`, syncs it, and gives it the name `path`, in the place of what had that. After a
// failure `path` is what it was, or the new file; `temporary` is removed again, unless it was there before (EEXIST), which is
// another's. The name is durable only after sync_directory() of its folder: that is the caller's, who knows which folders are
// new.
Step write_and_rename(FileSystem& files, const std::string& temporary, const std::string& path,
                      std::span<const std::byte> bytes, Readers readers = Readers::kAll);

// open_directory_store over a given file system.
Result<std::unique_ptr<ObjectStore>> open_directory_store(const std::string& directory, MissingFolder missing,
                                                          std::shared_ptr<FileSystem> files);

}  // namespace holdfast::storage
