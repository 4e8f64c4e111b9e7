#include "worker/devices/devices.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <thread>

namespace holdfast::worker {
namespace {

constexpr int kDefault = -1;

// The number of a GPU's name: 2 for "hip:2", kDefault for "hip"; nullopt when it is not a GPU's name.
std::optional<int> gpu_number(std::string_view device) {
  if (device == "hip") return kDefault;
  constexpr std::string_view kPrefix = "hip:";
  if (!device.starts_with(kPrefix)) return std::nullopt;
  device.remove_prefix(kPrefix.size());
  int number = 0;
  const auto [end, error] = std::from_chars(device.data(), device.data() + device.size(), number);
  if (error != std::errc() || end != device.data() + device.size() || number < 0) return std::nullopt;
  return number;
}

// In the order in which they are to be tried.
std::vector<int> candidates(const std::string& device, const GpuOps& gpus, int64_t local_rank) {
  if (const int number = gpu_number(device).value_or(kDefault); number != kDefault) return {number};
  std::vector<int> order = gpus.by_preference();
  const auto own = std::ranges::find(order, local_rank);
  if (device == "auto" && own != order.end()) std::rotate(order.begin(), own, own + 1);
  return order;
}

struct Claimed {
  int gpu;
  std::unique_ptr<const GpuLock> lock;
};

// The first of them that nobody has; else the sentence's words: who has which.
tl::expected<Claimed, std::string> claim(const std::vector<int>& gpus, const GpuOps& ops, const GpuLocks& locks) {
  std::vector<std::string> taken;
  for (const int gpu : gpus) {
    auto lock = locks.take(ops.identity(gpu));
    if (lock) return Claimed{gpu, *std::move(lock)};
    if (lock.error().holder.empty())
      return tl::unexpected(
          fmt::format("no lock can be had that keeps other workers off the GPU ({}): name a folder for it by HOLDFAST_LOCKS",
                      lock.error().why));
    taken.push_back(fmt::format("hip:{} is taken by {}", gpu, lock.error().holder));
  }
  return tl::unexpected(fmt::format("{}", fmt::join(taken, ", ")));
}

tl::expected<Claimed, std::string> claim_patiently(const std::vector<int>& gpus, const GpuOps& ops, const GpuLocks& locks,
                                                   std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  for (;; std::this_thread::sleep_for(std::chrono::milliseconds(100))) {
    auto claimed = claim(gpus, ops, locks);
    if (claimed || std::chrono::steady_clock::now() >= deadline) return claimed;
  }
}

}  // namespace

bool is_device_name(const std::string& device) {
  return device == "auto" || device == "cpu" || device == "ref" || gpu_number(device).has_value();
}

tl::expected<int, std::string> count_gpus(const GpuOps* gpus) {
  if (gpus == nullptr) return 0;
  kernels::GpusFound found = gpus->find();
  if (!found.why_none.empty()) return tl::unexpected(std::move(found.why_none));
  return found.count;
}

tl::expected<ChosenDevice, std::string> choose_device(const std::string& device, int threads, const GpuOps* gpus,
                                                      int64_t local_rank, const GpuLocks* locks,
                                                      std::chrono::milliseconds patience) {
  if (device == "ref") return ChosenDevice{[](kernels::DType dtype) { return kernels::make_ref_ops(dtype); }, "", nullptr};
  const auto number = gpu_number(device);
  const ChosenDevice cpu{[threads](kernels::DType dtype) { return kernels::make_cpu_ops(dtype, threads); }, "", nullptr};
  if (gpus == nullptr) {
    if (!number) return cpu;
    return tl::unexpected("--device " + device + ": this build has no HIP; use --device cpu, or build with cmake --preset hip");
  }
  if (device == "cpu") return cpu;
  const auto counted = count_gpus(gpus);
  if (!counted) return tl::unexpected(fmt::format("--device {}: {}. --device cpu does without", device, counted.error()));
  const int count = *counted;
  if (device == "auto" && count == 0) return cpu;
  if (count == 0) {
    return tl::unexpected("--device " + device +
                          ": the runtime finds no GPU: is its driver loaded (for AMD's there is /dev/kfd then, for NVIDIA's "
                          "/dev/nvidiactl)? --device cpu does without");
  }
  if (number.value_or(kDefault) >= count) {
    return tl::unexpected(fmt::format("--device {}: there {} here, hip:0{}", device,
                                      count == 1 ? "is 1 GPU" : fmt::format("are {} GPUs", count),
                                      count == 1 ? "" : fmt::format(" to hip:{}", count - 1)));
  }
  const std::vector<int> order = candidates(device, *gpus, local_rank);
  auto claimed = locks == nullptr ? Claimed{order.front(), nullptr} : claim_patiently(order, *gpus, *locks, patience);
  if (!claimed) {
    return tl::unexpected(
        fmt::format("--device {}: {}. Two programs on one GPU are slower than one; --share_device has them "
                    "share it all the same, --device cpu does without",
                    device, claimed.error()));
  }
  return ChosenDevice{[make = gpus->make, gpu = claimed->gpu](kernels::DType dtype) { return make(dtype, gpu); },
                      fmt::format("hip:{}", claimed->gpu), std::move(claimed->lock)};
}

}  // namespace holdfast::worker
