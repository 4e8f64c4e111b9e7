// NVML: NVIDIA Management Library API Reference Guide. It is loaded here and not linked, for a worker for AMD's GPUs or for
// CPUs must start without it; its types that are used are written down below.
#include <dlfcn.h>

#include <utility>

#include "worker/load/load_reader.h"

namespace holdfast::worker {
namespace {

constexpr const char* kLibrary = "libnvidia-ml.so.1";
constexpr int kSuccess = 0, kGpuCore = 0;

using Device = void*;
struct Utilization {
  unsigned gpu, memory;  // percent
};
struct Memory {
  unsigned long long total, free, used;  // bytes
};

class Nvml {
 public:
  Nvml() : library_(dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL)) {
    if (library_ == nullptr) return;
    const auto find = [this](auto& function, const char* name) {
      function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(library_, name));
      return function != nullptr;
    };
    int (*init)() = nullptr;
    ready_ = find(init, "nvmlInit_v2") && find(handle, "nvmlDeviceGetHandleByPciBusId_v2") &&
             find(utilization, "nvmlDeviceGetUtilizationRates") && find(memory, "nvmlDeviceGetMemoryInfo") &&
             find(power, "nvmlDeviceGetPowerUsage") && find(temperature, "nvmlDeviceGetTemperature") && init() == kSuccess;
  }
  bool ready() const { return ready_; }

  int (*handle)(const char* pci_address, Device*) = nullptr;
  int (*utilization)(Device, Utilization*) = nullptr;
  int (*memory)(Device, Memory*) = nullptr;
  int (*power)(Device, unsigned* milliwatts) = nullptr;
  int (*temperature)(Device, int sensor, unsigned* celsius) = nullptr;

 private:
  void* library_;  // until the process ends
  bool ready_ = false;
};

class NvidiaLoad final : public LoadReader {
 public:
  NvidiaLoad(Nvml nvml, Device device) : nvml_(nvml), device_(device) {}

  rendezvous::DeviceLoad read() override {
    rendezvous::DeviceLoad load;
    Utilization utilization{};
    Memory memory{};
    unsigned milliwatts = 0, celsius = 0;
    if (nvml_.utilization(device_, &utilization) == kSuccess) load.busy = utilization.gpu / 100.0;
    if (nvml_.memory(device_, &memory) == kSuccess) load.memory_used_bytes = static_cast<int64_t>(memory.used);
    if (nvml_.power(device_, &milliwatts) == kSuccess) load.watts = milliwatts / 1000.0;
    if (nvml_.temperature(device_, kGpuCore, &celsius) == kSuccess) load.celsius = celsius;
    return load;
  }

 private:
  Nvml nvml_;
  Device device_;
};

}  // namespace

std::unique_ptr<LoadReader> make_nvidia_load_reader(const std::string& pci_address) {
  const Nvml nvml;
  Device device = nullptr;
  if (!nvml.ready() || nvml.handle(pci_address.c_str(), &device) != kSuccess) return nullptr;
  return std::make_unique<NvidiaLoad>(nvml, device);
}

std::unique_ptr<LoadReader> make_load_reader(const std::string& pci_address, int threads) {
  if (pci_address.empty()) return make_cpu_load_reader(threads);
  if (auto nvidia = make_nvidia_load_reader(pci_address)) return nvidia;
  return make_amd_load_reader("/sys/bus/pci/devices/" + pci_address);
}

}  // namespace holdfast::worker
