// The health of this worker's GPU: the errors that its driver counts, and whether heat holds its clocks down.
//
// amdgpu tells it in files under /sys (RAS counters, sensors, the table gpu_metrics), NVIDIA's driver by NVML. Promises: a
// figure that the driver does not tell is missing, a file or an answer that makes no sense is left out and takes nothing else
// with it, and nothing throws. Refuses: to judge; health_watch.h does. A reading takes milliseconds, and as long as the driver
// takes to answer. Thread: one at a time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "worker/load/nvml.h"

namespace holdfast::worker {

// Both since the driver was loaded, or since it reset the GPU.
struct ErrorCounts {
  int64_t uncorrected = 0, corrected = 0;
  bool operator==(const ErrorCounts&) const = default;
};
struct DeviceHealth {
  std::map<std::string, ErrorCounts> errors;  // by part of the GPU, in the driver's words: "umc" (its memory), "sdma", "memory"
  std::vector<int64_t> xids;                  // NVIDIA's numbers of critical errors, those since the last reading
  std::string hot;                            // why heat holds the clocks down: "the hotspot's limit"; "": it does not
  bool operator==(const DeviceHealth&) const = default;
};

class HealthReader {
 public:
  virtual ~HealthReader() = default;
  virtual DeviceHealth read() = 0;
};

// `folder` is the device's, such as /sys/bus/pci/devices/0000:03:00.0. Null where it has nothing that could tell.
std::unique_ptr<HealthReader> make_amd_health_reader(std::string folder);
// `pci_address` as in "0000:03:00.0". Null without NVML, or when it does not know that device.
std::unique_ptr<HealthReader> make_nvidia_health_reader(const std::string& pci_address,
                                                        const std::string& library = kNvmlLibrary);

// The reader for a device as kernels::DeviceInfo describes it. Null for the CPU ("") and where no driver tells anything.
std::unique_ptr<HealthReader> make_health_reader(const std::string& pci_address);

}  // namespace holdfast::worker
