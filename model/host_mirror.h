// Device memory as the host sees it, for the ring: the memory itself where it is the host's, else staging memory to which
// ranges are fetched and from which they are put back beside other work.
//
// Promises: nothing is copied, or allocated, where memory is the host's; else staging memory is, by the first `prepare`. What
// is fetched is as the work left it that was queued then, if later work leaves it alone until the fetch is finished. A range is
// put when nothing that is queued uses it: after it was fetched, as a rule. Thread: the ops' own; once prepared, `data`,
// `finish_fetch` and `put` may be called by one other beside it.
#pragma once

#include <cstddef>
#include <mutex>
#include <vector>

#include "kernels/ops.h"

namespace holdfast::model {

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
  // Of all fetches that have begun and touch the range.
  void finish_fetch(size_t first, size_t bytes);
  void fetch(size_t first, size_t bytes) {
    begin_fetch(first, bytes);
    finish_fetch(first, bytes);
  }
  // What is in host memory goes to the device, for the work that is queued after await_puts.
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

}  // namespace holdfast::model
