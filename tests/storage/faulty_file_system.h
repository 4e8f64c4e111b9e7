// A file system in memory that keeps durable contents apart from contents that were only written, and fails on request.
//
// Promises no more than POSIX does: fsync of a file makes its bytes durable but not its name; fsync of a directory makes its
// names durable. After a loss of power each unsynced change of a name has happened or not, independently of the others.
// Unsynced bytes are there up to any length, followed by any other bytes. A copy of a Disk is another disk with the same
// contents.
#pragma once

#include <map>
#include <random>

#include "storage/file_system.h"

namespace holdfast::storage::testing {

struct Fault {
  enum class Kind {
    kOnce,            // the operation fails with `error`, after a part of its work if it can be done in part
    kOnceDoneAnyway,  // the operation does all of its work and fails: a file server whose answer was lost
    kFromThen,        // the operation and all after it fail: a disk that died, a volume that is full
    kPowerOff,        // the operation is interrupted; nothing works until the disk is booted again
  };
  Kind kind = Kind::kOnce;
  int64_t at = -1;  // the number of the operation, from 0; only operations that change something count
  int error = 0;
};

class Disk {
 public:
  Disk();
  struct Change {  // a change of names in a directory, which happens whole or not at all
    std::string removed, added;
    size_t inode = 0;
  };
  struct Inode {
    bool is_directory = false;
    bool sync_failed = false;  // as on Linux: bytes that this sync did not write stay unwritten, even if a later sync succeeds
    Bytes bytes, durable_bytes;
    std::map<std::string, size_t> names, durable_names;
    std::vector<Change> unsynced;
  };
  std::vector<Inode> inodes;  // [0] is "/"

  // Leaves the files that a machine finds after a loss of power; `seed` decides which unsynced changes are there.
  void lose_power(uint32_t seed);
};

class FaultyFileSystem : public FileSystem {
 public:
  explicit FaultyFileSystem(Disk disk = {}, Fault fault = {}) : disk_(std::move(disk)), fault_(fault) {}

  Disk disk() const { return disk_; }
  int64_t operations() const { return operations_; }  // the number so far of operations that change something
  void heal() {
    fault_ = {};
    unreadable_.clear();
  }
  // Reads of the file or folder at `path` itself fail with `error`, from now until heal().
  void make_unreadable(const std::string& path, int error) { unreadable_[path] = error; }

  IoResult<int> create(const std::string& path, Readers readers) override;
  IoResult<size_t> write(int file, std::span<const std::byte> bytes) override;
  IoResult<void> sync(int file) override;
  IoResult<void> close(int file) override;
  IoResult<void> rename(const std::string& from, const std::string& to) override;
  IoResult<void> unlink(const std::string& path) override;
  IoResult<void> make_directory(const std::string& path) override;
  IoResult<void> remove_directory(const std::string& path) override;
  IoResult<void> sync_directory(const std::string& path) override;
  IoResult<Bytes> read(const std::string& path, int64_t bytes_max) override;
  IoResult<std::vector<DirectoryEntry>> list(const std::string& path) override;
  IoResult<bool> is_directory(const std::string& path) override;
  IoResult<int64_t> free_bytes(const std::string& path) override;

 private:
  // Counts an operation. Returns the errno with which it fails, or 0.
  int begin();
  // An operation that changes something: does `work` as far as the fault allows it.
  template <typename Work>
  auto changing(const Work& work) -> decltype(work());
  bool is_off() const { return fault_.kind == Fault::Kind::kPowerOff && fault_.at >= 0 && operations_ > fault_.at; }
  IoResult<size_t> find(const std::string& path) const;
  IoResult<size_t> parent(const std::string& path, std::string* name) const;
  IoResult<size_t> make(const std::string& path, bool directory);
  void change(size_t directory, const Disk::Change& change);

  Disk disk_;
  Fault fault_;
  std::map<std::string, int> unreadable_;
  int64_t operations_ = 0;
  std::map<int, size_t> open_;
  int next_file_ = 100;
};

}  // namespace holdfast::storage::testing
