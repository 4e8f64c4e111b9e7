// Memory that an op needs while it runs. Grows to the largest request and stays; contents do not survive growing.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

#include "kernels/host_memory.h"

namespace holdfast::kernels::cpu {

// Bytes up to the next multiple of a cache line.
constexpr size_t aligned(size_t bytes) {
  return (bytes + 63) / 64 * 64;
}

class Scratch {
 public:
  Scratch() = default;
  Scratch(Scratch&& other) noexcept : memory_(other.memory_), bytes_(other.bytes_), asked_(other.asked_) {
    other.memory_ = nullptr;
    other.bytes_ = 0;
  }
  Scratch& operator=(Scratch&&) = delete;
  ~Scratch() { std::free(memory_); }

  // 64-byte aligned room for `count` floats.
  float* floats(int64_t count) { return static_cast<float*>(reserve(static_cast<size_t>(count) * sizeof(float))); }

  void* reserve(size_t bytes) {
    asked_ = std::max(asked_, bytes);
    if (bytes > bytes_) {
      std::free(memory_);
      bytes_ = aligned(bytes);
      memory_ = allocate_host(bytes_);
      if (memory_ == nullptr) {
        bytes_ = 0;
        throw std::bad_alloc();
      }
    }
    return memory_;
  }

  void* memory() const { return memory_; }

  // The most that was asked for since keep(): what lies behind it is as it was then.
  void keep() { asked_ = 0; }
  size_t asked_since_kept() const { return asked_; }

 private:
  void* memory_ = nullptr;
  size_t bytes_ = 0;
  size_t asked_ = 0;
};

}  // namespace holdfast::kernels::cpu
