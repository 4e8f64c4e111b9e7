// An NVIDIA GPU's health, by NVML: its memory's ECC counters, the reasons for its clocks, its critical Xids.
#include <optional>

#include "worker/load/health.h"

namespace holdfast::worker {
namespace {

constexpr int kXidsOfReading = 100;  // a GPU that brings more is told of in the next one

class NvidiaHealth final : public HealthReader {
 public:
  NvidiaHealth(const Nvml& nvml, Nvml::Device device) : nvml_(nvml), device_(device) {
    if (!nvml_.make_event_set || !nvml_.register_events || !nvml_.wait_for_event) return;
    if (nvml_.make_event_set(&events_) != Nvml::kSuccess) {
      events_ = nullptr;
    } else if (nvml_.register_events(device_, Nvml::kXidCriticalError, events_) != Nvml::kSuccess) {
      events_ = nullptr;  // it stays, empty, until the process ends
    }
  }

  DeviceHealth read() override {
    DeviceHealth health;
    const auto uncorrected = count_of(Nvml::kUncorrected), corrected = count_of(Nvml::kCorrected);
    if (uncorrected || corrected) health.errors["memory"] = {uncorrected.value_or(0), corrected.value_or(0)};
    unsigned long long reasons = 0;
    if (nvml_.clock_reasons && nvml_.clock_reasons(device_, &reasons) == Nvml::kSuccess) {
      if ((reasons & Nvml::kHardwareThermal) != 0) {
        health.hot = "the hardware's limit, at which it slows down to half or less";
      } else if ((reasons & Nvml::kSoftwareThermal) != 0) {
        health.hot = "the driver's limit";
      }
    }
    take_xids(health);
    return health;
  }

 private:
  std::optional<int64_t> count_of(int type) const {
    unsigned long long count = 0;
    if (!nvml_.ecc_errors) return std::nullopt;
    if (nvml_.ecc_errors(device_, type, Nvml::kSinceTheDriverWasLoaded, &count) != Nvml::kSuccess) return std::nullopt;
    return static_cast<int64_t>(count);
  }

  void take_xids(DeviceHealth& health) {
    if (events_ == nullptr) return;
    Nvml::EventData event{};
    for (int i = 0; i < kXidsOfReading && nvml_.wait_for_event(events_, &event, 0) == Nvml::kSuccess; ++i) {
      if (event.type == Nvml::kXidCriticalError) health.xids.push_back(static_cast<int64_t>(event.data));
    }
  }

  Nvml nvml_;
  Nvml::Device device_;
  Nvml::EventSet events_ = nullptr;
};

}  // namespace

std::unique_ptr<HealthReader> make_nvidia_health_reader(const std::string& pci_address, const std::string& library) {
  const Nvml nvml(library);
  Nvml::Device device = nullptr;
  if (!nvml.ready() || nvml.handle(pci_address.c_str(), &device) != Nvml::kSuccess) return nullptr;
  return std::make_unique<NvidiaHealth>(nvml, device);
}

std::unique_ptr<HealthReader> make_health_reader(const std::string& pci_address) {
  if (pci_address.empty()) return nullptr;
  if (auto nvidia = make_nvidia_health_reader(pci_address)) return nvidia;
  return make_amd_health_reader("/sys/bus/pci/devices/" + pci_address);
}

}  // namespace holdfast::worker
