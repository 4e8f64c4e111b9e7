#include "worker/load/nvml.h"

#include <dlfcn.h>

#include <type_traits>

namespace holdfast::worker {

Nvml::Nvml(const std::string& library) : library_(dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL)) {
  if (library_ == nullptr) return;
  const auto find = [this](auto& function, const char* name) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(library_, name));
    return function != nullptr;
  };
  int (*init)() = nullptr;
  ready_ = find(init, "nvmlInit_v2") && find(handle, "nvmlDeviceGetHandleByPciBusId_v2") &&
           find(utilization, "nvmlDeviceGetUtilizationRates") && find(memory, "nvmlDeviceGetMemoryInfo") &&
           find(power, "nvmlDeviceGetPowerUsage") && find(temperature, "nvmlDeviceGetTemperature") && init() == kSuccess;
  find(ecc_errors, "nvmlDeviceGetTotalEccErrors");
  // Its name until driver 535 had, and has beside the new one, "throttle".
  if (!find(clock_reasons, "nvmlDeviceGetCurrentClocksEventReasons"))
    find(clock_reasons, "nvmlDeviceGetCurrentClocksThrottleReasons");
  find(make_event_set, "nvmlEventSetCreate");
  find(register_events, "nvmlDeviceRegisterEvents");
  find(wait_for_event, "nvmlEventSetWait_v2");
}

}  // namespace holdfast::worker
