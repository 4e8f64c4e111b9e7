// What a worker computes on: the meaning of --device.
//
// "cpu" and "ref" are in every build, GPUs in those for them (HOLDFAST_HIP of kernels/hip/CMakeLists.txt). One worker has one
// GPU: "hip:1" is the second, "hip" the first that is not integrated into the CPU. "auto" is "hip" where there is a GPU, else
// the CPU; a worker that had one waits for it when its driver shows none for a while, and does not go on with the CPU
// (worker_program.cpp).
#pragma once

#include <memory>
#include <string>
#include <tl/expected.hpp>

#include "worker/session.h"
#include "worker/worker_program.h"

namespace holdfast::worker {

// The op set for GPUs, as it was linked (kernels/ops.h).
struct GpuOps {
  int (*count)();
  int (*default_device)();
  std::unique_ptr<kernels::DeviceOps> (*make)(kernels::DType activations, int device);
};

// Whether it is the name of some device, there or not.
bool is_device_name(const std::string& device);

// `device` is a device's name; `gpus` is null in a build without. Refuses: a GPU that is not there, with what to do.
tl::expected<ChosenDevice, std::string> choose_device(const std::string& device, int threads, const GpuOps* gpus);

}  // namespace holdfast::worker
