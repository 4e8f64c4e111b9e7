#include "worker/process/devices.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <string_view>

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

}  // namespace

bool is_device_name(const std::string& device) {
  return device == "auto" || device == "cpu" || device == "ref" || gpu_number(device).has_value();
}

tl::expected<ChosenDevice, std::string> choose_device(const std::string& device, int threads, const GpuOps* gpus,
                                                      int64_t local_rank) {
  if (device == "ref") return ChosenDevice{[](kernels::DType dtype) { return kernels::make_ref_ops(dtype); }, ""};
  const auto number = gpu_number(device);
  const ChosenDevice cpu{[threads](kernels::DType dtype) { return kernels::make_cpu_ops(dtype, threads); }, ""};
  if (gpus == nullptr) {
    if (!number) return cpu;
    return tl::unexpected("--device " + device + ": this build has no HIP; use --device cpu, or build with cmake --preset hip");
  }
  if (device == "cpu") return cpu;
  const int count = gpus->count();
  if (device == "auto" && count == 0) return cpu;
  if (count > 0 && number.value_or(kDefault) < count) {
    const bool by_rank = device == "auto" && local_rank >= 0 && local_rank < count;
    const int gpu = by_rank                                 ? static_cast<int>(local_rank)
                    : number.value_or(kDefault) == kDefault ? gpus->default_device()
                                                            : *number;
    return ChosenDevice{[make = gpus->make, gpu](kernels::DType dtype) { return make(dtype, gpu); },
                        fmt::format("hip:{}", gpu)};
  }
  if (count > 0) {
    return tl::unexpected(fmt::format("--device {}: there {} here, hip:0{}", device,
                                      count == 1 ? "is 1 GPU" : fmt::format("are {} GPUs", count),
                                      count == 1 ? "" : fmt::format(" to hip:{}", count - 1)));
  }
  return tl::unexpected("--device " + device +
                        ": the runtime finds no GPU: is its driver loaded, and may this user open it (for AMD's, /dev/kfd and "
                        "/dev/dri: groups render and video)? --device cpu does without");
}

}  // namespace holdfast::worker
