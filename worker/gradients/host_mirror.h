// Device memory as the host sees it, for the ring: the memory itself where the host can use it; else staging memory, to which
// ranges are fetched and from which they are put back, beside other work.
//
// Promises: nothing is copied or allocated where the memory is the host's; else the first `prepare` allocates the staging
// memory. A fetched range is as the work left it that was queued before the fetch, if later work does not touch it until the
// fetch is finished. Put a range only when no queued work uses it, so as a rule after fetching it.
// Thread: the ops' own; once prepared, one other thread beside it may call `data`, `finish_fetch` and `put`.
#pragma once

#include <cstddef>
#include <mutex>
#include <vector>

#include "kernels/ops.h"

namespace holdfast::worker {

class HostMirror {
 public:
  // `ops` and the device's memory outlive it.
  HostMirror(kernels::DeviceOps& ops, void* device, size_t bytes);
  ~HostMirror();
  HostMirror(const HostMirror&) = delete;
  HostMirror& operator=(const HostMirror&) = delete;

  void prepare();
  std::byte* data() { return host_; }
  const std::byte* data() const { return host_; }

  // Bytes are counted from the beginning. Ranges that are fetched at the same time do not overlap.
  void begin_fetch(size_t first, size_t bytes);
  // Waits for all fetches that have begun and touch the range.
  void finish_fetch(size_t first, size_t bytes);
  void fetch(size_t first, size_t bytes) {
    begin_fetch(first, bytes);
    finish_fetch(first, bytes);
  }
  // Copies the range from host memory to the device, for the work that is queued after await_puts.
  void put(size_t first, size_t bytes);
  void await_puts();

 private:
  struct Fetch {
    size_t first, bytes;
    kernels::DeviceOps::Copy copy;
  };
  bool is_device_memory() const { return host_ == device_; }

  kernels::DeviceOps& ops_;
  std::byte *const device_, *host_;
  const size_t bytes_;
  std::mutex mutex_;
  std::vector<Fetch> fetches_;  // under way
};

}  // namespace holdfast::worker
