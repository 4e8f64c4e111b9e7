// Calls of the runtime, and what becomes of their errors.
#include "kernels/hip/runtime.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <utility>

namespace holdfast::kernels::hip {
namespace {

std::string mebibytes(size_t bytes) {
  return std::to_string((bytes + (1U << 20) - 1) >> 20) + " MiB";
}

}  // namespace

void check(hipError_t error, const std::string& what) {
  if (error == hipSuccess) return;
  (void)hipGetLastError();  // it is kept otherwise, and taken for that of the next kernel
  if (error == hipErrorOutOfMemory) {
    throw std::runtime_error("hip: out of memory, for " + what + kMemoryAdvice);
  }
  throw DeviceError("hip: " + what + ": " + hipGetErrorString(error));
}

void use_device(int device) {
  thread_local int used = -1;
  if (used == device) return;
  check(hipSetDevice(device), "device " + std::to_string(device));
  used = device;
}

namespace {

// The file that a driver puts into /dev once it is loaded.
std::string driver_file() {
#if defined(HOLDFAST_HIP_ON_CPU)
  return shim::driver_file();
#elif defined(__CUDACC__)
  return "/dev/nvidiactl";
#else
  return "/dev/kfd";
#endif
}

// "": nothing speaks for a GPU in this machine.
std::string why_there_are_none(hipError_t error) {
  const std::string file = driver_file();
  if (::access(file.c_str(), F_OK) != 0) return "";
  if (::access(file.c_str(), R_OK | W_OK) != 0) {
    return "this user may not open " + file + " (" + std::strerror(errno) +
           "): for AMD's GPUs it has to be in the groups render and video, from its next login on";
  }
  std::string why = file + " is there, so a GPU's driver is loaded, but the runtime finds no GPU";
  if (error != hipSuccess) why.append(": ").append(hipGetErrorString(error));
  if (error == hipErrorInsufficientDriver) why += ". Update the driver, or build with the toolkit of its time";
  return why;
}

}  // namespace

GpusFound find_devices() {
  int count = 0;
  const hipError_t error = hipGetDeviceCount(&count);
  if (error == hipSuccess && count > 0) return {count, ""};
  // The last two: what AMD's runtime says where it could not begin, its driver not being there.
  if (error != hipErrorNoDevice && error != hipErrorInsufficientDriver && error != hipErrorInvalidDevice &&
      error != hipErrorNotInitialized) {
    check(error, "the number of devices");
  }
  (void)hipGetLastError();
  return {0, why_there_are_none(error)};
}

DeviceProperties properties_of(int device) {
  hipDeviceProp_t found;
  check(hipGetDeviceProperties(&found, device), "properties of device " + std::to_string(device));
#if defined(__CUDACC__)
  const std::string architecture = "sm_" + std::to_string(found.major) + std::to_string(found.minor);
#else
  std::string architecture = found.gcnArchName;
  architecture.resize(std::min(architecture.size(), architecture.find(':')));  // "gfx90a:sramecc+:xnack-"
#endif
  char pci_address[32];
  std::snprintf(pci_address, sizeof pci_address, "%04x:%02x:%02x.0", found.pciDomainID, found.pciBusID, found.pciDeviceID);
  std::string identity = pci_address;
#if defined(__CUDACC__)
  identity += '-';
  for (const char byte : found.uuid.bytes) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned char>(byte));
    identity += digits;
  }
#endif
  return {found.name,
          architecture,
          static_cast<int64_t>(found.totalGlobalMem),
          found.warpSize,
          found.multiProcessorCount,
          found.integrated != 0,
          pci_address,
          identity};
}

Stream::Stream(int device, Priority priority) : device_(device) {
  use();
  int least = 0, greatest = 0;
  if (priority == Priority::kLeast) check(hipDeviceGetStreamPriorityRange(&least, &greatest), "the priorities of streams");
  check(hipStreamCreateWithPriority(&stream_, hipStreamNonBlocking, least), "a stream");
}
Stream::~Stream() {
  (void)hipStreamDestroy(stream_);
}
void Stream::wait() const {
  use();
  check(hipStreamSynchronize(stream_), "waiting for the device");
}
void Stream::copy_to_device(void* to, const void* host_from, size_t bytes) const {
  use();
  check(hipMemcpyAsync(to, host_from, bytes, hipMemcpyHostToDevice, stream_),
        "a copy to the device of " + std::to_string(bytes) + " bytes");
}
void Stream::copy_to_host(void* host_to, const void* from, size_t bytes) const {
  use();
  check(hipMemcpyAsync(host_to, from, bytes, hipMemcpyDeviceToHost, stream_),
        "a copy from the device of " + std::to_string(bytes) + " bytes");
}
void Stream::copy_on_device(void* to, const void* from, size_t bytes) const {
  use();
  check(hipMemcpyAsync(to, from, bytes, hipMemcpyDeviceToDevice, stream_),
        "a copy on the device of " + std::to_string(bytes) + " bytes");
}
void Stream::zero(void* memory, size_t bytes) const {
  use();
  check(hipMemsetAsync(memory, 0, bytes, stream_), "zeroing " + std::to_string(bytes) + " bytes");
}

Event::Event(const Stream& stream) : device_(stream.device()) {
  stream.use();
  check(hipEventCreateWithFlags(&event_, hipEventDisableTiming), "an event");
  const hipError_t recorded = hipEventRecord(event_, stream.get());
  if (recorded == hipSuccess) return;
  (void)hipEventDestroy(event_);
  check(recorded, "an event in a stream");
}
Event::~Event() {
  if (event_ != nullptr) (void)hipEventDestroy(event_);
}
Event::Event(Event&& other) noexcept : device_(other.device_), event_(std::exchange(other.event_, nullptr)) {}
Event& Event::operator=(Event&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(event_, other.event_);
  return *this;
}
void Event::take(const Stream& stream) {
  stream.use();
  check(hipEventRecord(event_, stream.get()), "an event in a stream");
}
void Event::wait() const {
  use_device(device_);
  check(hipEventSynchronize(event_), "waiting for the device");
}
bool Event::is_over() const {
  use_device(device_);
  const hipError_t state = hipEventQuery(event_);
  if (state == hipErrorNotReady) {
    (void)hipGetLastError();
    return false;
  }
  check(state, "asking the device");
  return true;
}
void Event::hold_up(const Stream& stream) const {
  stream.use();
  check(hipStreamWaitEvent(stream.get(), event_, 0), "a stream's wait for another");
}

namespace {

// A capture of a stream, for as long as it lives: only this thread's calls may disturb it.
class Capture {
 public:
  explicit Capture(const Stream& stream) : stream_(stream) {
    stream.use();
    check(hipStreamBeginCapture(stream.get(), hipStreamCaptureModeThreadLocal), "recording a stream");
  }
  ~Capture() {
    if (graph_ == nullptr) (void)hipStreamEndCapture(stream_.get(), &graph_);  // nothing is to be left of it
    if (graph_ != nullptr) (void)hipGraphDestroy(graph_);
    (void)hipGetLastError();
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  hipGraph_t end() {
    check(hipStreamEndCapture(stream_.get(), &graph_), "the record of a stream");
    return graph_;
  }

 private:
  const Stream& stream_;
  hipGraph_t graph_ = nullptr;
};

}  // namespace

Graph::Graph(const Stream& stream, const std::function<void()>& put) : stream_(stream) {
  Capture capture(stream);
  put();
  check(hipGraphInstantiateWithFlags(&graph_, capture.end(), 0), "a graph of what was recorded");
}
Graph::~Graph() {
  try {
    stream_.wait();
  } catch (...) {  // of a device that failed there is no more to be had
  }
  (void)hipGraphExecDestroy(graph_);
}
void Graph::launch(const Stream& stream) const {
  stream.use();
  check(hipGraphLaunch(graph_, stream.get()), "a graph");
}

Marks::~Marks() {
  for (const hipEvent_t event : events_) (void)hipEventDestroy(event);
}
hipEvent_t Marks::next() {
  stream_.use();
  if (used_ == events_.size()) {
    hipEvent_t fresh = nullptr;
    check(hipEventCreateWithFlags(&fresh, hipEventDefault), "an event with a time");
    events_.push_back(fresh);
  }
  return events_[used_++];
}
void Marks::add() {
  check(hipEventRecord(next(), stream_.get()), "an event in a stream");
}
// Two events tell the time between them, and none tells the host's: so the host waits for a last one, in a queue that is empty
// by then, and looks at its clock. From there the times go backwards from one event to the one before: milliseconds are in a
// float, which over a step of some seconds would have no microseconds.
std::vector<int64_t> Marks::take() {
  if (used_ == 0) return {};
  const size_t count = used_;
  stream_.wait();
  const hipEvent_t last = next();
  used_ = 0;
  check(hipEventRecord(last, stream_.get()), "an event in a stream");
  check(hipEventSynchronize(last), "waiting for the device");
  const int64_t now_ns = std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
  std::vector<int64_t> passed(count);
  double ago_ms = 0;
  for (size_t i = count; i-- > 0;) {
    float milliseconds = 0;
    check(hipEventElapsedTime(&milliseconds, events_[i], events_[i + 1]), "the time between two events");
    ago_ms += static_cast<double>(milliseconds);
    passed[i] = now_ns - std::llround(ago_ms * 1e6);
  }
  return passed;
}

void* allocate_pinned(size_t bytes) {
  void* memory = nullptr;
  const hipError_t error = hipHostMalloc(&memory, bytes, hipHostMallocDefault);
  if (error == hipErrorOutOfMemory) {
    (void)hipGetLastError();  // it is told below
    throw std::runtime_error("hip: the host has no " + mebibytes(bytes) +
                             " that the GPU can reach, which copies beside the work need: free some of the host's memory, or "
                             "raise what limits it (a container's limit, ulimit -l, or amdgpu.gttsize: half of all memory)");
  }
  check(error, "host memory of " + mebibytes(bytes) + " for copies");
  return memory;
}
void release_pinned(void* memory) noexcept {
  if (hipHostFree(memory) != hipSuccess) (void)hipGetLastError();
}

PinnedMemory::PinnedMemory(size_t bytes) : memory_(allocate_pinned(bytes)), bytes_(bytes) {}
PinnedMemory::~PinnedMemory() {
  if (memory_ != nullptr) release_pinned(memory_);
}
PinnedMemory::PinnedMemory(PinnedMemory&& other) noexcept
    : memory_(std::exchange(other.memory_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
PinnedMemory& PinnedMemory::operator=(PinnedMemory&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

void QuickCopies::copy(void* to, const void* host_from, size_t bytes) {
  if (bytes == 0) return;  // an empty vector has no address to copy from
  Slot& slot = slots_[next_++ % slots_.size()];
  if (slot.copied) slot.copied->wait();
  stream_.use();
  if (slot.memory.bytes() < bytes) slot.memory = PinnedMemory(bytes);
  std::memcpy(slot.memory.data<void>(), host_from, bytes);
  stream_.copy_to_device(to, slot.memory.data<void>(), bytes);
  slot.copied.emplace(stream_);
}

void* allocate_on_device(size_t bytes) {
  void* memory = nullptr;
  const hipError_t error = hipMalloc(&memory, bytes);
  if (error == hipErrorOutOfMemory) {
    (void)hipGetLastError();  // it is told below
    size_t free = 0, total = 0;
    check(hipMemGetInfo(&free, &total), "the device's free memory");
    throw std::runtime_error("hip: out of memory: asked " + mebibytes(bytes) + ", " + std::to_string(free >> 20) + " free" +
                             kMemoryAdvice);
  }
  check(error, "memory of " + mebibytes(bytes));
  return memory;
}

void release_on_device(void* memory) noexcept {
  if (hipFree(memory) != hipSuccess) (void)hipGetLastError();
}

}  // namespace holdfast::kernels::hip
