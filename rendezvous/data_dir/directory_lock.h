// The lock on a data directory. A service holds it as long as it runs, and a restore holds it while it replaces the database.
//
// Without the lock, two services on one directory would both make decisions. The lock is flock(2) on DATA_DIR/service.lock, so
// it ends with the process, however the process ends. The file contains the holder's pid, for people.
#pragma once

#include <string>
#include <tl/expected.hpp>

namespace holdfast::rendezvous {

class DirectoryLock {
 public:
  DirectoryLock() = default;
  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

  // Takes the lock; call it once. The destructor gives it back. The error names the process that holds the lock and ends with
  // `remedy`, which says what to do.
  tl::expected<void, std::string> take(const std::string& data_dir, const std::string& remedy);

 private:
  int file_ = -1;
};

}  // namespace holdfast::rendezvous
