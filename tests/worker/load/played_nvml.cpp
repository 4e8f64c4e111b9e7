// NVML as a test plays it, for one GPU at 0000:03:00.0: what it tells stands in the file that HOLDFAST_PLAYED_NVML names, a
// number behind each word: "uncorrected 2 corrected 5 reasons 64 celsius 91 xid 79". A word that is not there is an error of
// NVML's, as of a GPU that does not know it. An Xid comes once for each time that the file is written anew.
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

namespace {

constexpr int kSuccess = 0, kInvalidArgument = 2, kNotSupported = 3, kNotFound = 6, kTimeout = 10;
int gpu, events;  // their addresses are the handles

const char* file_name() {
  const char* name = std::getenv("HOLDFAST_PLAYED_NVML");
  return name == nullptr ? "" : name;
}

template <typename Number>
int tell(const char* wanted, Number* number) {
  std::ifstream file(file_name());
  std::string word;
  unsigned long long value = 0;
  while (file >> word >> value) {
    if (word != wanted) continue;
    *number = static_cast<Number>(value);
    return kSuccess;
  }
  return kNotSupported;
}

}  // namespace

extern "C" {
struct Utilization {
  unsigned gpu, memory;
};
struct Memory {
  unsigned long long total, free, used;
};
struct EventData {
  void* device;
  unsigned long long type, data;
  unsigned gpu_instance, compute_instance;
};

int nvmlInit_v2() {
  return kSuccess;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* address, void** device) {
  *device = &gpu;
  return std::strcmp(address, "0000:03:00.0") == 0 ? kSuccess : kNotFound;
}
int nvmlDeviceGetUtilizationRates(void*, Utilization* utilization) {
  return tell("busy", &utilization->gpu);
}
int nvmlDeviceGetMemoryInfo(void*, Memory* memory) {
  return tell("used", &memory->used);
}
int nvmlDeviceGetPowerUsage(void*, unsigned* milliwatts) {
  return tell("milliwatts", milliwatts);
}
int nvmlDeviceGetTemperature(void*, int, unsigned* celsius) {
  return tell("celsius", celsius);
}
int nvmlDeviceGetTotalEccErrors(void* device, int type, int counter, unsigned long long* count) {
  if (device != &gpu || counter != 0) return kInvalidArgument;
  return tell(type == 1 ? "uncorrected" : "corrected", count);
}
int nvmlDeviceGetCurrentClocksEventReasons(void*, unsigned long long* reasons) {
  return tell("reasons", reasons);
}
int nvmlEventSetCreate(void** set) {
  *set = &events;
  return kSuccess;
}
int nvmlDeviceRegisterEvents(void* device, unsigned long long types, void* set) {
  return device == &gpu && types == 8 && set == &events ? kSuccess : kInvalidArgument;
}
int nvmlEventSetWait_v2(void* set, EventData* event, unsigned timeout_ms) {
  static std::filesystem::file_time_type seen;
  if (set != &events || timeout_ms != 0) return kInvalidArgument;
  std::error_code none;
  const auto written = std::filesystem::last_write_time(file_name(), none);
  unsigned long long xid = 0;
  if (none || written == seen || tell("xid", &xid) != kSuccess) return kTimeout;
  seen = written;
  *event = {&gpu, 8, xid, 0, 0};
  return kSuccess;
}
}
