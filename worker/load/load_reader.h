// The load of this worker's device just now: for the service's list of workers, never for a decision.
//
// AMD's GPUs tell it in files of their driver (amdgpu, under /sys), NVIDIA's by NVML, a library of their driver that is loaded
// when it is there; a worker on the CPU looks at its own process.
// Promises: a figure that the machine does not tell is missing, and nothing throws. A reading takes well below a millisecond,
// but for the first one of NVML. Thread: one at a time.
#pragma once

#include <memory>
#include <string>

#include "rendezvous/protocol/messages.h"

namespace holdfast::worker {

class LoadReader {
 public:
  virtual ~LoadReader() = default;
  // Of the time since the last reading; the first one may know less.
  virtual rendezvous::DeviceLoad read() = 0;
};

// Of this process, which computes on `threads` threads: `proc` is /proc/self, or a copy of it for a test.
std::unique_ptr<LoadReader> make_cpu_load_reader(int threads, std::string proc = "/proc/self");
// `folder` is the device's, such as /sys/bus/pci/devices/0000:03:00.0.
std::unique_ptr<LoadReader> make_amd_load_reader(std::string folder);
// `pci_address` as in "0000:03:00.0". Null without NVML, or when it does not know that device.
std::unique_ptr<LoadReader> make_nvidia_load_reader(const std::string& pci_address);

// The reader for a device as kernels::DeviceInfo describes it: a GPU by its address on the PCI bus, else the CPU.
std::unique_ptr<LoadReader> make_load_reader(const std::string& pci_address, int threads);

}  // namespace holdfast::worker
