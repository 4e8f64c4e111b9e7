// The lock on a data directory: a service holds it for as long as it runs, and so does whoever replaces its database.
//
// Two services on one directory would both believe that they decide. Held by flock(2) on DATA_DIR/service.lock, which ends with
// the process however that ends; the file holds the pid, for people.
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

  // Once. The error names who holds it and ends with `remedy`: what to do then.
  tl::expected<void, std::string> take(const std::string& data_dir, const std::string& remedy);

 private:
  int file_ = -1;
};

}  // namespace holdfast::rendezvous
