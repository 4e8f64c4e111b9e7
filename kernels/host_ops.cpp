// Host memory and what the machine says about itself.
#include "kernels/host_ops.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <stdexcept>

#include "kernels/host_memory.h"

namespace holdfast::kernels {

std::string host_cpu_model() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    if (!line.starts_with("model name")) continue;
    const size_t colon = line.find(':');
    const size_t begin = line.find_first_not_of(' ', colon + 1);
    if (colon != std::string::npos && begin != std::string::npos) return line.substr(begin);
  }
  return "unknown CPU";
}

int64_t host_memory_bytes() {
  const int64_t installed = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  std::ifstream limit("/sys/fs/cgroup/memory.max");  // a number, "max", or not there
  int64_t granted = 0;
  return limit >> granted ? std::min(installed, granted) : installed;
}

int64_t HostOps::steady_ns() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void* HostOps::allocate(size_t bytes) {
  const auto limit = static_cast<size_t>(host_memory_bytes());
  void* const memory = bytes <= limit ? allocate_host(bytes) : nullptr;
  if (memory == nullptr) {
    throw std::runtime_error("cannot allocate " + std::to_string(bytes) + " bytes of host memory: the machine has " +
                             std::to_string(limit) + " bytes in all; use a smaller batch_size or model, or free memory");
  }
  return memory;
}

void HostOps::release(void* memory) noexcept {
  std::free(memory);
}

// Of nothing, the pointers may be null, which memcpy and memset must not be given.
void HostOps::copy_to_device(void* to, const void* host_from, size_t bytes) {
  if (bytes > 0) std::memcpy(to, host_from, bytes);
}
void HostOps::copy_to_host(void* host_to, const void* from, size_t bytes) {
  if (bytes > 0) std::memcpy(host_to, from, bytes);
}
void HostOps::zero(void* memory, size_t bytes) {
  if (bytes > 0) std::memset(memory, 0, bytes);
}

}  // namespace holdfast::kernels
