// The runtime's functions: memory from the heap, streams as queues of what is still to be done.
#include <hip/hip_runtime.h>

#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <utility>

namespace {

constexpr unsigned char kNoise = 0xcb;
constexpr size_t kAlignment = 256, kDeviceBytes = size_t{1} << 30;

struct Device {
  int wave = 32;
  int64_t calls = 0, fails_at = 0;
  hipError_t failure = hipSuccess, last = hipSuccess;
  std::map<void*, size_t> memory;
} device;

// Whether the call is to do what it is for; else `device.last` says why not.
bool begins() {
  ++device.calls;
  if (device.fails_at == 0 || device.calls != device.fails_at) return true;
  device.last = device.failure;
  return false;
}

hipError_t allocate(void** memory, size_t bytes, bool on_device) {
  if (!begins()) return device.last;
  if (on_device && shim::bytes_on_device() + bytes > kDeviceBytes) return device.last = hipErrorOutOfMemory;
  const size_t whole = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  *memory = std::aligned_alloc(kAlignment, whole == 0 ? kAlignment : whole);
  std::memset(*memory, kNoise, whole);
  if (on_device) device.memory[*memory] = bytes;
  return hipSuccess;
}

}  // namespace

struct ShimStream {
  std::deque<std::function<void()>> waiting;
  uint64_t done = 0, queued = 0;

  void push(std::function<void()> what) {
    waiting.push_back(std::move(what));
    ++queued;
  }
  void run_until(uint64_t number) {
    while (done < number) {
      auto next = std::move(waiting.front());
      waiting.pop_front();
      ++done;  // before: it may wait for an event of this stream
      next();
    }
  }
};

struct ShimEvent {
  ShimStream* stream = nullptr;
  uint64_t after = 0;
};

namespace shim {

void set_wave(int lanes) {
  device.wave = lanes;
}
void fail_call(int64_t n, int error) {
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

hipError_t launch(unsigned blocks, unsigned threads, hipStream_t stream, std::function<void()> body) {
  if (!begins()) return device.last;
  if (blocks == 0) return device.last = hipErrorInvalidValue;
  stream->push([blocks, threads, body = std::move(body)] { run_blocks(blocks, threads, body); });
  return hipSuccess;
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
    case hipErrorIllegalAddress:
      return "an illegal memory access was encountered";
    case hipErrorLaunchFailure:
      return "unspecified launch failure";
    default:
      return "invalid argument";
  }
}

hipError_t hipGetLastError() {
  return std::exchange(device.last, hipSuccess);
}
hipError_t hipGetDeviceCount(int* count) {
  if (!begins()) return device.last;
  *count = 1;
  return hipSuccess;
}
hipError_t hipGetDeviceProperties(hipDeviceProp_t* properties, int) {
  if (!begins()) return device.last;
  *properties = {"this CPU, as if it were a GPU", kDeviceBytes, device.wave, 1, "cpu"};
  return hipSuccess;
}
hipError_t hipSetDevice(int number) {
  if (!begins()) return device.last;
  return device.last = number == 0 ? hipSuccess : hipErrorInvalidValue;
}
hipError_t hipMemGetInfo(size_t* free, size_t* total) {
  if (!begins()) return device.last;
  *total = kDeviceBytes;
  *free = kDeviceBytes - shim::bytes_on_device();
  return hipSuccess;
}
hipError_t hipMalloc(void** memory, size_t bytes) {
  return allocate(memory, bytes, true);
}
hipError_t hipFree(void* memory) {
  if (!begins()) return device.last;
  device.memory.erase(memory);
  std::free(memory);
  return hipSuccess;
}
hipError_t hipHostMalloc(void** memory, size_t bytes, unsigned) {
  return allocate(memory, bytes, false);
}
hipError_t hipHostFree(void* memory) {
  if (!begins()) return device.last;
  std::free(memory);
  return hipSuccess;
}
hipError_t hipMemcpyAsync(void* to, const void* from, size_t bytes, hipMemcpyKind, hipStream_t stream) {
  if (!begins()) return device.last;
  if (bytes > 0) stream->push([=] { std::memcpy(to, from, bytes); });
  return hipSuccess;
}
hipError_t hipMemsetAsync(void* memory, int value, size_t bytes, hipStream_t stream) {
  if (!begins()) return device.last;
  stream->push([=] { std::memset(memory, value, bytes); });
  return hipSuccess;
}
hipError_t hipStreamCreateWithFlags(hipStream_t* stream, unsigned) {
  if (!begins()) return device.last;
  *stream = new ShimStream;
  return hipSuccess;
}
hipError_t hipStreamDestroy(hipStream_t stream) {
  if (!begins()) return device.last;
  stream->run_until(stream->queued);
  delete stream;
  return hipSuccess;
}
hipError_t hipStreamSynchronize(hipStream_t stream) {
  if (!begins()) return device.last;
  stream->run_until(stream->queued);
  return hipSuccess;
}
hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event, unsigned) {
  if (!begins()) return device.last;
  if (event->stream != nullptr) stream->push([other = event->stream, after = event->after] { other->run_until(after); });
  return hipSuccess;
}
hipError_t hipEventCreateWithFlags(hipEvent_t* event, unsigned) {
  if (!begins()) return device.last;
  *event = new ShimEvent;
  return hipSuccess;
}
hipError_t hipEventDestroy(hipEvent_t event) {
  if (!begins()) return device.last;
  delete event;
  return hipSuccess;
}
hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream) {
  if (!begins()) return device.last;
  event->stream = stream;
  event->after = stream->queued;
  return hipSuccess;
}
hipError_t hipEventSynchronize(hipEvent_t event) {
  if (!begins()) return device.last;
  if (event->stream != nullptr) event->stream->run_until(event->after);
  return hipSuccess;
}
