// Memory of an op set with one owner: its device's, or staging memory, which is the host's. Movable; the ops it came from
// outlive it.
#pragma once

#include <utility>

#include "kernels/ops.h"

namespace holdfast::model {

class DeviceBuffer {
 public:
  enum class Memory : uint8_t { kDevice, kStaging };
  DeviceBuffer() = default;
  DeviceBuffer(kernels::DeviceOps& ops, size_t bytes, Memory memory = Memory::kDevice)
      : ops_(&ops),
        staging_(memory == Memory::kStaging),
        memory_(staging_ ? ops.allocate_staging(bytes) : ops.allocate(bytes)),
        bytes_(bytes) {}
  DeviceBuffer(DeviceBuffer&& other) noexcept { swap(other); }
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    swap(other);
    return *this;
  }
  ~DeviceBuffer() {
    if (memory_ != nullptr) staging_ ? ops_->release_staging(memory_) : ops_->release(memory_);
  }

  template <typename T>
  T* data() {
    return static_cast<T*>(memory_);
  }
  template <typename T>
  const T* data() const {
    return static_cast<const T*>(memory_);
  }
  size_t bytes() const { return bytes_; }

 private:
  void swap(DeviceBuffer& other) noexcept {
    std::swap(ops_, other.ops_);
    std::swap(staging_, other.staging_);
    std::swap(memory_, other.memory_);
    std::swap(bytes_, other.bytes_);
  }
  kernels::DeviceOps* ops_ = nullptr;
  bool staging_ = false;
  void* memory_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace holdfast::model
