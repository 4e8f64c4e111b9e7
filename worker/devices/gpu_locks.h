// Which worker of this machine has which GPU: a lock on a file for each, so that no two share one unasked.
//
// Promises: a lock ends with the process that holds it, however that ends. Workers see each other's locks where they see the
// same folder: containers do not. Files stay; they name the last holder. Thread: any.
#pragma once

#include <memory>
#include <string>
#include <tl/expected.hpp>
#include <vector>

namespace holdfast::worker {

class GpuLock {
 public:
  explicit GpuLock(int file) : file_(file) {}
  ~GpuLock();
  GpuLock(const GpuLock&) = delete;
  GpuLock& operator=(const GpuLock&) = delete;

 private:
  int file_;
};

class GpuLocks {
 public:
  // `holder` is what others are told: a worker's name. The first of the folders that can be written holds the files.
  GpuLocks(std::vector<std::string> folders, std::string holder) : folders_(std::move(folders)), holder_(std::move(holder)) {}

  // The folder that HOLDFAST_LOCKS names; without it those that every user of a Linux system may write: /dev/shm, /tmp.
  static std::vector<std::string> usual_folders();

  struct NotTaken {
    std::string holder;  // of the GPU: "w1 (process 4242)"; "": none, but no file can be locked
    std::string why;     // then: the path and the system's words
  };
  // `identity`: kernels/gpus.h.
  tl::expected<std::unique_ptr<GpuLock>, NotTaken> take(const std::string& identity) const;

 private:
  std::vector<std::string> folders_;
  std::string holder_;
};

}  // namespace holdfast::worker
