// The runtime's functions for devices and memory, which is from the heap, and the settings of tests.
#include <fcntl.h>
#include <hip/hip_runtime.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <random>
#include <utility>

#include "tests/kernels/shim/fenced_memory.h"
#include "tests/kernels/shim/runtime.h"

namespace {

constexpr unsigned char kNoise = 0xcb;
constexpr size_t kAlignment = 256, kDeviceBytes = size_t{1} << 30;

// The number of the call that is to fail: HOLDFAST_SHIM_FAIL_CALL, or 0. It fails once in all processes that share the file
// HOLDFAST_SHIM_FAIL_ONCE.
int64_t call_that_fails() {
  const char *call = std::getenv("HOLDFAST_SHIM_FAIL_CALL"), *once = std::getenv("HOLDFAST_SHIM_FAIL_ONCE");
  return call == nullptr || once == nullptr || ::access(once, F_OK) == 0 ? 0 : std::atoll(call);
}

struct Device {
  std::recursive_mutex mutex;  // held during every call, so also while kernels run
  int wave = 32;
  int64_t calls = 0, fails_at = call_that_fails();
  hipError_t failure = hipErrorLaunchFailure;
  std::map<void*, size_t> memory;
} device;
thread_local hipError_t last = hipSuccess;

// Of streams; blocks have another one.
std::mt19937_64 stream_order{1};

// One, unless HOLDFAST_SHIM_DEVICES says another number.
int device_count() {
  const char* said = std::getenv("HOLDFAST_SHIM_DEVICES");
  return said == nullptr ? 1 : std::atoi(said);
}

hipError_t allocate(void** memory, size_t bytes, bool on_device) {
  const shim::Call call;
  if (call.fails) return last;
  if (shim::is_forbidden_by_capture()) return last = hipErrorStreamCaptureUnsupported;
  if (on_device && shim::bytes_on_device() + bytes > kDeviceBytes) return last = hipErrorOutOfMemory;
  const size_t whole = bytes == 0 ? kAlignment : (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (on_device && shim::FencedMemory::is_wanted()) {
    const shim::FencedMemory::Opened opened;
    *memory = shim::FencedMemory::allocate(whole);
    std::memset(*memory, kNoise, whole);
  } else {
    *memory = std::aligned_alloc(kAlignment, whole);
    std::memset(*memory, kNoise, whole);
  }
  if (on_device) device.memory[*memory] = bytes;
  return hipSuccess;
}

}  // namespace

namespace shim {

Call::Call() : lock(device.mutex) {
  ++device.calls;
  if (device.fails_at == 0 || device.calls != device.fails_at) return;
  if (const char* once = std::getenv("HOLDFAST_SHIM_FAIL_ONCE")) ::close(::open(once, O_CREAT | O_WRONLY, 0666));
  fails = true;
  last = device.failure;
}
std::recursive_mutex& runtime_lock() {
  return device.mutex;
}
hipError_t told(hipError_t error) {
  return last = error;
}
hipError_t error_to_return() {
  return last;
}
uint64_t random_below(uint64_t limit) {
  return stream_order() % limit;
}
void shuffle_streams_with(uint64_t seed) {
  const std::lock_guard lock(device.mutex);
  stream_order.seed(seed);
}

void set_wave(int lanes) {
  device.wave = lanes;
}
void fail_call(int64_t n, int error) {
  const std::lock_guard lock(device.mutex);
  device.fails_at = n == 0 ? 0 : device.calls + n;
  device.failure = static_cast<hipError_t>(error);
}
int64_t calls_so_far() {
  return device.calls;
}
size_t bytes_on_device() {
  size_t bytes = 0;
  for (const auto& [where, size] : device.memory) bytes += size;
  return bytes;
}

std::string driver_file() {
  const char* said = std::getenv("HOLDFAST_SHIM_DRIVER");
  return said == nullptr ? "/dev/no-driver-of-a-played-gpu" : said;
}

}  // namespace shim

const char* hipGetErrorString(hipError_t error) {
  switch (error) {
    case hipSuccess:
      return "no error";
    case hipErrorOutOfMemory:
      return "out of memory";
    case hipErrorNoDevice:
      return "no ROCm-capable device is detected";
    case hipErrorInsufficientDriver:
      return "driver version is insufficient for runtime version";
    case hipErrorIllegalAddress:
      return "an illegal memory access was encountered";
    case hipErrorLaunchFailure:
      return "unspecified launch failure";
    case hipErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
    case hipErrorStreamCaptureInvalidated:
      return "operation failed due to a previous error during capture";
    case hipErrorStreamCaptureUnjoined:
      return "capturing stream has unjoined work";
    case hipErrorStreamCaptureIsolation:
      return "dependency created on uncaptured work in another stream";
    case hipErrorCapturedEvent:
      return "operation not permitted on an event last recorded in a capturing stream";
    default:
      return "invalid argument";
  }
}

hipError_t hipGetLastError() {
  return std::exchange(last, hipSuccess);
}
hipError_t hipGetDeviceCount(int* count) {
  const shim::Call call;
  if (call.fails) return last;
  const char* absent = std::getenv("HOLDFAST_SHIM_ABSENT");  // a file's name: while the file exists, there is no device
  if (absent != nullptr && ::access(absent, F_OK) == 0) return last = hipErrorNoDevice;
  if (std::getenv("HOLDFAST_SHIM_OLD_DRIVER") != nullptr) return last = hipErrorInsufficientDriver;
  *count = device_count();
  return *count > 0 ? hipSuccess : last = hipErrorNoDevice;
}
hipError_t hipGetDeviceProperties(hipDeviceProp_t* properties, int number) {
  const shim::Call call;
  if (call.fails) return last;
  *properties = {"this CPU, as if it were a GPU", kDeviceBytes, device.wave, 1, 0, "cpu", 0, 3, number};
  return hipSuccess;
}
hipError_t hipSetDevice(int number) {
  const shim::Call call;
  if (call.fails) return last;
  return last = number < device_count() ? hipSuccess : hipErrorInvalidValue;
}
hipError_t hipMemGetInfo(size_t* free, size_t* total) {
  const shim::Call call;
  if (call.fails) return last;
  *total = kDeviceBytes;
  *free = kDeviceBytes - shim::bytes_on_device();
  return hipSuccess;
}
hipError_t hipMalloc(void** memory, size_t bytes) {
  return allocate(memory, bytes, true);
}
hipError_t hipFree(void* memory) {
  const shim::Call call;
  if (call.fails) return last;
  const auto found = device.memory.find(memory);
  if (found == device.memory.end()) return last = hipErrorInvalidValue;
  if (shim::is_forbidden_by_capture()) return last = hipErrorStreamCaptureUnsupported;
  {
    const shim::FencedMemory::Opened opened;
    std::memset(memory, kNoise, found->second);  // so that a later reader notices
  }
  if (shim::FencedMemory::is_wanted()) {
    shim::FencedMemory::release(memory,
                                found->second == 0 ? kAlignment : (found->second + kAlignment - 1) / kAlignment * kAlignment);
  } else {
    std::free(memory);
  }
  device.memory.erase(found);
  return hipSuccess;
}
hipError_t hipHostMalloc(void** memory, size_t bytes, unsigned) {
  const char* most = std::getenv("HOLDFAST_SHIM_PINNED_BYTES");  // of one piece
  if (most != nullptr && bytes > static_cast<size_t>(std::atoll(most))) return last = hipErrorOutOfMemory;
  return allocate(memory, bytes, false);
}
hipError_t hipHostFree(void* memory) {
  const shim::Call call;
  if (call.fails) return last;
  if (shim::is_forbidden_by_capture()) return last = hipErrorStreamCaptureUnsupported;
  std::free(memory);
  return hipSuccess;
}
