// The part of DeviceOps that is the same for every op set that runs on the host: memory is plain memory, and work is done
// when a call returns.
//
// Refuses: an allocation larger than the machine's memory, or one the system does not grant (std::runtime_error that names
// the bytes). Linux grants address space far beyond memory and kills the process when it is touched, hence the first check.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "kernels/ops.h"

namespace holdfast::kernels {

std::string host_cpu_model();  // as /proc/cpuinfo names it
int64_t host_memory_bytes();   // the machine's memory, or what the container may have of it

class HostOps : public DeviceOps {
 public:
  void* allocate(size_t bytes) override;
  void release(void* memory) noexcept override;
  void copy_to_device(void* to, const void* host_from, size_t bytes) override;
  void copy_to_host(void* host_to, const void* from, size_t bytes) override;
  void zero(void* memory, size_t bytes) override;
  void synchronize() override {}

  void abs_maxima(float* host_largest, const Floats* of, size_t how_many) override {
    for (size_t i = 0; i < how_many; ++i) host_largest[i] = abs_max(of[i].x, of[i].count);
  }

  bool memory_is_host() const override { return true; }
  void* allocate_staging(size_t bytes) override { return allocate(bytes); }
  void release_staging(void* memory) noexcept override { release(memory); }
  Copy begin_copy_to_host(void* staging_to, const void* from, size_t bytes) override {
    copy_to_host(staging_to, from, bytes);
    return 0;
  }
  void finish_copy(Copy) override {}
  void begin_copy_to_device(void* to, const void* staging_from, size_t bytes) override {
    copy_to_device(to, staging_from, bytes);
  }
  void await_copies() override {}

  void set_dropout_pass(uint64_t pass) override { dropout_pass_ = pass; }

  void mark() override { marks_.push_back(steady_ns()); }  // all work is done
  std::vector<int64_t> take_marks() override { return std::exchange(marks_, {}); }

 protected:
  uint64_t dropout_pass_ = 0;

 private:
  static int64_t steady_ns();
  std::vector<int64_t> marks_;
};

}  // namespace holdfast::kernels
