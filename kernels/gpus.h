// The GPUs of this machine, as the runtime shows them. Only in builds for them (HOLDFAST_HIP).
//
// Throws DeviceFailure (ops.h) where the runtime fails. Thread: any.
#pragma once

#include <string>
#include <vector>

namespace holdfast::kernels {

struct GpusFound {
  int count = 0;
  // Why there are none although a GPU's driver is here: no permission, a driver that is too old, the runtime's own words. "":
  // there are some, or nothing speaks for a GPU in this machine.
  std::string why_none;
};

GpusFound find_hip_devices();

// Their numbers: those that are not integrated into the CPU first.
std::vector<int> hip_devices_by_preference();

// The GPU's name for every process of this machine, whatever number it has there: its PCI address, "0000:03:00.0"; on NVIDIA's,
// of which one may be several, with its UUID.
std::string hip_device_identity(int device);

}  // namespace holdfast::kernels
