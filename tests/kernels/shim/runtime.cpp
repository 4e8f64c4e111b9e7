// The runtime's functions: memory from the heap, and streams as queues of work that is still to be done.
#include <fcntl.h>
#include <hip/hip_runtime.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "tests/kernels/shim/fenced_memory.h"

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

// One call of the runtime. `fails`: the call is to do nothing and to return the error in `last`.
struct Call {
  Call() : lock(device.mutex) {
    ++device.calls;
    if (device.fails_at == 0 || device.calls != device.fails_at) return;
    if (const char* once = std::getenv("HOLDFAST_SHIM_FAIL_ONCE")) ::close(::open(once, O_CREAT | O_WRONLY, 0666));
    fails = true;
    last = device.failure;
  }
  std::lock_guard<std::recursive_mutex> lock;
  bool fails = false;
};

// One, unless HOLDFAST_SHIM_DEVICES says another number.
int device_count() {
  const char* said = std::getenv("HOLDFAST_SHIM_DEVICES");
  return said == nullptr ? 1 : std::atoi(said);
}

hipError_t allocate(void** memory, size_t bytes, bool on_device) {
  const Call call;
  if (call.fails) return last;
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

struct ShimStream {
  std::shared_ptr<ShimStream> self{this};     // until it is destroyed; streams that wait for it hold it, too
  std::deque<std::function<bool()>> waiting;  // whether it is done
  uint64_t done = 0, queued = 0;

  void push(std::function<void()> what) {
    push_waiting([what = std::move(what)] {
      what();
      return true;
    });
  }
  void push_waiting(std::function<bool()> what) {
    waiting.push_back(std::move(what));
    ++queued;
  }
  // Does what can be done without waiting, up to this number. Whether that was all.
  bool run_as_far(uint64_t number) {
    const shim::FencedMemory::Opened opened;
    while (done < number) {
      auto next = std::move(waiting.front());
      waiting.pop_front();
      ++done;  // counted before it runs, because it may wait for an event of this stream
      if (next()) continue;
      --done;
      waiting.push_front(std::move(next));
      return false;
    }
    return true;
  }
  void run_until(uint64_t number) {
    while (!run_as_far(number)) std::this_thread::yield();
  }
};

struct ShimEvent {
  std::shared_ptr<ShimStream> stream;
  uint64_t after = 0;
  bool has_time = false;
  std::shared_ptr<std::chrono::steady_clock::time_point> passed;  // of the last record, once that work is done
};

namespace shim {

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

hipError_t launch(unsigned blocks, unsigned threads, hipStream_t stream, std::function<void()> body) {
  const Call call;
  if (call.fails) return last;
  if (blocks == 0) return last = hipErrorInvalidValue;
  stream->push([blocks, threads, body = std::move(body)] { run_blocks(blocks, threads, body); });
  return hipSuccess;
}

void put(hipStream_t stream, std::function<bool()> work) {
  const std::lock_guard lock(device.mutex);
  stream->push_waiting(std::move(work));
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
    default:
      return "invalid argument";
  }
}

hipError_t hipGetLastError() {
  return std::exchange(last, hipSuccess);
}
hipError_t hipGetDeviceCount(int* count) {
  const Call call;
  if (call.fails) return last;
  const char* absent = std::getenv("HOLDFAST_SHIM_ABSENT");  // a file's name: while the file exists, there is no device
  if (absent != nullptr && ::access(absent, F_OK) == 0) return last = hipErrorNoDevice;
  if (std::getenv("HOLDFAST_SHIM_OLD_DRIVER") != nullptr) return last = hipErrorInsufficientDriver;
  *count = device_count();
  return *count > 0 ? hipSuccess : last = hipErrorNoDevice;
}
hipError_t hipGetDeviceProperties(hipDeviceProp_t* properties, int number) {
  const Call call;
  if (call.fails) return last;
  *properties = {"this CPU, as if it were a GPU", kDeviceBytes, device.wave, 1, 0, "cpu", 0, 3, number};
  return hipSuccess;
}
hipError_t hipSetDevice(int number) {
  const Call call;
  if (call.fails) return last;
  return last = number < device_count() ? hipSuccess : hipErrorInvalidValue;
}
hipError_t hipMemGetInfo(size_t* free, size_t* total) {
  const Call call;
  if (call.fails) return last;
  *total = kDeviceBytes;
  *free = kDeviceBytes - shim::bytes_on_device();
  return hipSuccess;
}
hipError_t hipMalloc(void** memory, size_t bytes) {
  return allocate(memory, bytes, true);
}
hipError_t hipFree(void* memory) {
  const Call call;
  if (call.fails) return last;
  const auto found = device.memory.find(memory);
  if (found == device.memory.end()) return last = hipErrorInvalidValue;
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
  const Call call;
  if (call.fails) return last;
  std::free(memory);
  return hipSuccess;
}
hipError_t hipMemcpyAsync(void* to, const void* from, size_t bytes, hipMemcpyKind, hipStream_t stream) {
  const Call call;
  if (call.fails) return last;
  if (bytes > 0) stream->push([=] { std::memcpy(to, from, bytes); });
  return hipSuccess;
}
hipError_t hipMemsetAsync(void* memory, int value, size_t bytes, hipStream_t stream) {
  const Call call;
  if (call.fails) return last;
  stream->push([=] { std::memset(memory, value, bytes); });
  return hipSuccess;
}
hipError_t hipStreamCreateWithFlags(hipStream_t* stream, unsigned) {
  const Call call;
  if (call.fails) return last;
  *stream = new ShimStream;
  return hipSuccess;
}
hipError_t hipStreamDestroy(hipStream_t stream) {
  const Call call;
  if (call.fails) return last;
  stream->run_until(stream->queued);
  stream->self.reset();
  return hipSuccess;
}
hipError_t hipStreamSynchronize(hipStream_t stream) {
  const Call call;
  if (call.fails) return last;
  stream->run_until(stream->queued);
  return hipSuccess;
}
hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event, unsigned) {
  const Call call;
  if (call.fails) return last;
  if (event->stream != nullptr)
    stream->push_waiting([other = event->stream, after = event->after] { return other->run_as_far(after); });
  return hipSuccess;
}
hipError_t hipEventCreateWithFlags(hipEvent_t* event, unsigned flags) {
  const Call call;
  if (call.fails) return last;
  *event = new ShimEvent;
  (*event)->has_time = (flags & hipEventDisableTiming) == 0;
  return hipSuccess;
}
hipError_t hipEventDestroy(hipEvent_t event) {
  const Call call;
  if (call.fails) return last;
  delete event;
  return hipSuccess;
}
hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream) {
  const Call call;
  if (call.fails) return last;
  event->stream = stream->self;
  if (event->has_time) {
    event->passed = std::make_shared<std::chrono::steady_clock::time_point>();
    stream->push([passed = event->passed] { *passed = std::chrono::steady_clock::now(); });
  }
  event->after = stream->queued;
  return hipSuccess;
}
hipError_t hipEventQuery(hipEvent_t event) {
  const Call call;
  if (call.fails) return last;
  return event->stream == nullptr || event->stream->run_as_far(event->after) ? hipSuccess : last = hipErrorNotReady;
}
hipError_t hipEventSynchronize(hipEvent_t event) {
  const Call call;
  if (call.fails) return last;
  if (event->stream != nullptr) event->stream->run_until(event->after);
  return hipSuccess;
}
hipError_t hipEventElapsedTime(float* milliseconds, hipEvent_t begin, hipEvent_t end) {
  const Call call;
  if (call.fails) return last;
  for (const ShimEvent* event : {begin, end}) {
    if (!event->has_time || event->passed == nullptr) return last = hipErrorInvalidValue;
    if (event->stream->done < event->after) return last = hipErrorNotReady;
  }
  *milliseconds = std::chrono::duration<float, std::milli>(*end->passed - *begin->passed).count();
  return hipSuccess;
}
