// The part of DeviceOps that is the same for every op set that runs on the host: memory is plain memory, and work is done
// when a call returns.
//
// Refuses: an allocation larger than the machine's memory, or one the system does not grant (std::runtime_error that names
// the bytes). Linux grants address space far beyond memory and kills the process when it is touched, hence the first check.
#pragma once

#include <string>

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
};

}  // namespace holdfast::kernels
