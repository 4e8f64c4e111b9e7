// An NVIDIA GPU's load, by NVML.
#include "worker/load/load_reader.h"
#include "worker/load/nvml.h"

namespace holdfast::worker {
namespace {

class NvidiaLoad final : public LoadReader {
 public:
  NvidiaLoad(const Nvml& nvml, Nvml::Device device) : nvml_(nvml), device_(device) {}

  rendezvous::DeviceLoad read() override {
    rendezvous::DeviceLoad load;
    Nvml::Utilization utilization{};
    Nvml::Memory memory{};
    unsigned milliwatts = 0, celsius = 0;
    if (nvml_.utilization(device_, &utilization) == Nvml::kSuccess) load.busy = utilization.gpu / 100.0;
    if (nvml_.memory(device_, &memory) == Nvml::kSuccess) load.memory_used_bytes = static_cast<int64_t>(memory.used);
    if (nvml_.power(device_, &milliwatts) == Nvml::kSuccess) load.watts = milliwatts / 1000.0;
    if (nvml_.temperature(device_, Nvml::kGpuCore, &celsius) == Nvml::kSuccess) load.celsius = celsius;
    return load;
  }

 private:
  Nvml nvml_;
  Nvml::Device device_;
};

}  // namespace

std::unique_ptr<LoadReader> make_nvidia_load_reader(const std::string& pci_address) {
  const Nvml nvml;
  Nvml::Device device = nullptr;
  if (!nvml.ready() || nvml.handle(pci_address.c_str(), &device) != Nvml::kSuccess) return nullptr;
  return std::make_unique<NvidiaLoad>(nvml, device);
}

std::unique_ptr<LoadReader> make_load_reader(const std::string& pci_address, int threads) {
  if (pci_address.empty()) return make_cpu_load_reader(threads);
  if (auto nvidia = make_nvidia_load_reader(pci_address)) return nvidia;
  return make_amd_load_reader("/sys/bus/pci/devices/" + pci_address);
}

}  // namespace holdfast::worker
