// Memory of an op set with one owner: its device's; or staging memory, which is the host's; or reserved, where the device's
// memory is the host's (DeviceOps::memory_is_host): addresses, behind which pages are taken as they are written, and given back
// on demand. Movable; the ops it came from outlive it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/ops.h"

namespace holdfast::model {

class DeviceBuffer {
 public:
  enum class Memory : uint8_t { kDevice, kStaging, kReserved };
  DeviceBuffer() = default;
  // Throws what DeviceOps::allocate does; reserved, std::bad_alloc.
  DeviceBuffer(kernels::DeviceOps& ops, size_t bytes, Memory memory = Memory::kDevice);
  DeviceBuffer(DeviceBuffer&& other) noexcept { swap(other); }
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    swap(other);
    return *this;
  }
  ~DeviceBuffer();

  template <typename T>
  T* data() {
    return static_cast<T*>(memory_);
  }
  template <typename T>
  const T* data() const {
    return static_cast<const T*>(memory_);
  }
  size_t bytes() const { return bytes_; }

  // Reserved: of these bytes, those that fill pages are given back, and are 0 when they are next read; others stay.
  void give_back(size_t first, size_t bytes);

 private:
  void swap(DeviceBuffer& other) noexcept {
    std::swap(ops_, other.ops_);
    std::swap(kind_, other.kind_);
    std::swap(memory_, other.memory_);
    std::swap(bytes_, other.bytes_);
  }
  kernels::DeviceOps* ops_ = nullptr;
  Memory kind_ = Memory::kDevice;
  void* memory_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace holdfast::model
