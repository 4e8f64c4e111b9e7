// Memory that an op needs while it runs. Grows to the largest request and stays; contents do not survive growing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace holdfast::kernels::cpu {

class Scratch {
 public:
  Scratch() = default;
  Scratch(Scratch&& other) noexcept : memory_(other.memory_), bytes_(other.bytes_) {
    other.memory_ = nullptr;
    other.bytes_ = 0;
  }
  Scratch& operator=(Scratch&&) = delete;
  ~Scratch() { std::free(memory_); }

  // 64-byte aligned room for `count` floats.
  float* floats(int64_t count) { return static_cast<float*>(reserve(static_cast<size_t>(count) * sizeof(float))); }

  void* reserve(size_t bytes) {
    if (bytes > bytes_) {
      std::free(memory_);
      bytes_ = (bytes + 63) / 64 * 64;
      memory_ = std::aligned_alloc(64, bytes_);
      if (memory_ == nullptr) {
        bytes_ = 0;
        throw std::bad_alloc();
      }
    }
    return memory_;
  }

 private:
  void* memory_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace holdfast::kernels::cpu
