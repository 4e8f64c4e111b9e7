// The device that a program computes on: the meaning of --device.
//
// "cpu" and "ref" are in every build, GPUs only in builds for them (HOLDFAST_HIP of kernels/hip/CMakeLists.txt). One worker
// has one GPU: "hip:1" is the second, "hip" the first that no other program of Holdfast has on this machine, those that are
// integrated into the CPU last. "auto" is "hip" where there is a GPU, else the CPU: not where there is one that cannot be used.
// A worker that had a GPU waits for it while its driver shows none, and does not go on with the CPU (process/program.cpp).
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "kernels/gpus.h"
#include "kernels/ops.h"
#include "worker/devices/gpu_locks.h"

namespace holdfast::worker {

// The op set for GPUs, as it was linked (kernels/gpus.h, kernels/ops.h).
struct GpuOps {
  kernels::GpusFound (*find)();
  std::vector<int> (*by_preference)();
  std::string (*identity)(int device);
  std::unique_ptr<kernels::DeviceOps> (*make)(kernels::DType activations, int device);
};
// For the main file of a program, which is compiled for what is linked to it. Null: no GPUs.
#if defined(HOLDFAST_WITH_GPUS)
inline constexpr GpuOps kGpusOfBuild{kernels::find_hip_devices, kernels::hip_devices_by_preference,
                                     kernels::hip_device_identity, kernels::make_hip_ops};
constexpr const GpuOps* kLinkedGpus = &kGpusOfBuild;
#else
constexpr const GpuOps* kLinkedGpus = nullptr;
#endif

struct ChosenDevice {
  kernels::OpsFactory make_ops;
  std::string gpu;                      // its --device name, for which later lives of a worker ask; "" when it is not a GPU
  std::shared_ptr<const GpuLock> lock;  // held as long as it is used; null where the GPU is shared, or is none
};

// `gpus` is null in a build without GPUs: there are 0.
tl::expected<int, std::string> count_gpus(const GpuOps* gpus);

// Whether `device` is the name of a device, present or not.
bool is_device_name(const std::string& device);

// `device` is a device's name. `local_rank` is the GPU that "auto" tries first where there are that many; -1: the first that is
// not integrated into the CPU. `locks`: null where the GPU is shared. A GPU that another worker has is waited for until
// `patience` is over: an earlier life of this one may be on its way out. Refuses: a GPU that is not there, cannot be used, or
// is taken, with a sentence that says what to do.
tl::expected<ChosenDevice, std::string> choose_device(const std::string& device, int threads, const GpuOps* gpus,
                                                      int64_t local_rank = -1, const GpuLocks* locks = nullptr,
                                                      std::chrono::milliseconds patience = std::chrono::seconds(5));

}  // namespace holdfast::worker
