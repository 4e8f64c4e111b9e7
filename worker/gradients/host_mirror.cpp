#include "worker/gradients/host_mirror.h"

namespace holdfast::worker {

HostMirror::HostMirror(kernels::DeviceOps& ops, void* device, size_t bytes)
    : ops_(ops), device_(static_cast<std::byte*>(device)), host_(ops.memory_is_host() ? device_ : nullptr), bytes_(bytes) {}

HostMirror::~HostMirror() {
  if (!is_device_memory() && host_ != nullptr) ops_.release_staging(host_);
}

void HostMirror::prepare() {
  if (host_ == nullptr) host_ = static_cast<std::byte*>(ops_.allocate_staging(bytes_));
}

void HostMirror::begin_fetch(size_t first, size_t bytes) {
  if (is_device_memory() || bytes == 0) return;
  prepare();
  finish_fetch(first, bytes);  // an earlier fetch that was given up
  const auto copy = ops_.begin_copy_to_host(host_ + first, device_ + first, bytes);
  const std::lock_guard lock(mutex_);
  fetches_.push_back({first, bytes, copy});
}

void HostMirror::finish_fetch(size_t first, size_t bytes) {
  std::vector<Fetch> touched;
  {
    const std::lock_guard lock(mutex_);
    for (const Fetch& fetch : fetches_) {
      if (fetch.first < first + bytes && first < fetch.first + fetch.bytes) touched.push_back(fetch);
    }
  }
  for (const Fetch& fetch : touched) ops_.finish_copy(fetch.copy);
  const std::lock_guard lock(mutex_);
  for (const Fetch& done : touched) std::erase_if(fetches_, [&](const Fetch& fetch) { return fetch.copy == done.copy; });
}

void HostMirror::put(size_t first, size_t bytes) {
  if (is_device_memory() || bytes == 0) return;
  ops_.begin_copy_to_device(device_ + first, host_ + first, bytes);
}

void HostMirror::await_puts() {
  if (!is_device_memory() && host_ != nullptr) ops_.await_copies();
}

}  // namespace holdfast::worker
