// The device that a worker computes on: the meaning of --device.
//
// "cpu" and "ref" are in every build, GPUs only in builds for them (HOLDFAST_HIP of kernels/hip/CMakeLists.txt). One worker
// has one GPU: "hip:1" is the second, "hip" the first that is not integrated into the CPU. "auto" is "hip" where there is a
// GPU, else the CPU. A worker that had a GPU waits for it while its driver shows none, and does not go on with the CPU
// (program.cpp).
#pragma once

#include <memory>
#include <string>
#include <tl/expected.hpp>

#include "worker/process/program.h"
#include "worker/session/session.h"

namespace holdfast::worker {

// The op set for GPUs, as it was linked (kernels/ops.h).
struct GpuOps {
  int (*count)();
  int (*default_device)();
  std::unique_ptr<kernels::DeviceOps> (*make)(kernels::DType activations, int device);
};

// Whether `device` is the name of a device, present or not.
bool is_device_name(const std::string& device);

// `device` is a device's name; `gpus` is null in a build without GPUs. Refuses: a GPU that is not there, with a sentence that
// says what to do.
// `local_rank` is the GPU that "auto" takes where there are that many; -1: the first that is not integrated into the CPU.
tl::expected<ChosenDevice, std::string> choose_device(const std::string& device, int threads, const GpuOps* gpus,
                                                      int64_t local_rank = -1);

}  // namespace holdfast::worker
