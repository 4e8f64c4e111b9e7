// NVML, the library of NVIDIA's driver that tells about its GPUs, as far as it is used here.
//
// It is loaded and not linked, for a worker for AMD's GPUs or for CPUs must start without it; so its types and constants are
// written down here, as nvml.h has them (NVML API Reference Guide). Promises: nothing throws; a function that this release of
// the library lacks is null, but for those of ready(). Thread: any.
#pragma once

#include <string>

namespace holdfast::worker {

inline constexpr const char* kNvmlLibrary = "libnvidia-ml.so.1";

class Nvml {
 public:
  static constexpr int kSuccess = 0;                            // nvmlReturn_t
  static constexpr int kGpuCore = 0;                            // nvmlTemperatureSensors_t
  static constexpr int kCorrected = 0, kUncorrected = 1;        // nvmlMemoryErrorType_t
  static constexpr int kSinceTheDriverWasLoaded = 0;            // nvmlEccCounterType_t: NVML_VOLATILE_ECC
  static constexpr unsigned long long kXidCriticalError = 0x8;  // nvmlEventTypeXidCriticalError
  // nvmlClocksEventReason…: thermal slowdown by software and by hardware. 0x8, hardware's slowdown in general, may be power.
  static constexpr unsigned long long kSoftwareThermal = 0x20, kHardwareThermal = 0x40;

  using Device = void*;
  using EventSet = void*;
  struct Utilization {
    unsigned gpu, memory;  // percent
  };
  struct Memory {
    unsigned long long total, free, used;  // bytes
  };
  struct EventData {  // nvmlEventData_t
    Device device;
    unsigned long long type, data;  // of a critical Xid error `data` is the Xid
    unsigned gpu_instance, compute_instance;
  };

  explicit Nvml(const std::string& library = kNvmlLibrary);
  // Whether the library is there, has the functions that every release has, and could begin.
  bool ready() const { return ready_; }

  int (*handle)(const char* pci_address, Device*) = nullptr;
  int (*utilization)(Device, Utilization*) = nullptr;
  int (*memory)(Device, Memory*) = nullptr;
  int (*power)(Device, unsigned* milliwatts) = nullptr;
  int (*temperature)(Device, int sensor, unsigned* celsius) = nullptr;
  // Null where the library has none.
  int (*ecc_errors)(Device, int type, int counter, unsigned long long* count) = nullptr;
  int (*clock_reasons)(Device, unsigned long long* reasons) = nullptr;
  int (*make_event_set)(EventSet*) = nullptr;
  int (*register_events)(Device, unsigned long long types, EventSet) = nullptr;
  int (*wait_for_event)(EventSet, EventData*, unsigned timeout_ms) = nullptr;

 private:
  void* library_;  // until the process ends
  bool ready_ = false;
};

}  // namespace holdfast::worker
