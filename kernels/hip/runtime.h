// The device's runtime with C++'s manners: errors are exceptions that name what was tried, what was made is given back.
//
// Promises: every call's error is looked at; work that was put into a stream is done in its order; nothing but what says so
// waits; whichever thread uses an object, it is of the object's device. Throws DeviceError, after which the device is not to be
// trusted and the process ends; where there is not enough memory, std::runtime_error.
// Thread: any; a stream may be used by several at once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/gpus.h"
#include "kernels/hip/portable.h"
#include "kernels/ops.h"

namespace holdfast::kernels::hip {

class DeviceError : public DeviceFailure {
 public:
  using DeviceFailure::DeviceFailure;
};

// Throws DeviceError "hip: WHAT: the runtime's words" unless `error` is hipSuccess.
void check(hipError_t error, const std::string& what);

struct DeviceProperties {
  std::string name, architecture;  // "AMD Radeon AI PRO R9700", "gfx1201"
  int64_t memory_bytes;
  int wave;
  int processors;
  bool is_integrated;       // into the CPU, whose memory it uses
  std::string pci_address;  // "0000:03:00.0"
  std::string identity;     // kernels/gpus.h
};

// Of this thread's calls from now on.
void use_device(int device);

GpusFound find_devices();
DeviceProperties properties_of(int device);

// A queue of work. In it, one after the other.
class Stream {
 public:
  // kLeast: its work takes what that of others leaves.
  enum class Priority : uint8_t { kUsual, kLeast };
  explicit Stream(int device, Priority priority = Priority::kUsual);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  hipStream_t get() const { return stream_; }
  int device() const { return device_; }
  void use() const { use_device(device_); }
  void wait() const;  // until all of it is done
  void copy_to_device(void* to, const void* host_from, size_t bytes) const;
  void copy_to_host(void* host_to, const void* from, size_t bytes) const;
  void copy_on_device(void* to, const void* from, size_t bytes) const;
  void zero(void* memory, size_t bytes) const;

 private:
  int device_;
  hipStream_t stream_ = nullptr;
};

// A moment in a stream: when all is done that was in it when the moment was taken.
class Event {
 public:
  explicit Event(const Stream& stream);  // takes it
  ~Event();
  Event(Event&& other) noexcept;
  Event& operator=(Event&& other) noexcept;

  void take(const Stream& stream);           // another moment, in a stream of the same device
  void wait() const;                         // this thread
  bool is_over() const;                      // by now
  void hold_up(const Stream& stream) const;  // later work in that stream

 private:
  int device_;
  hipEvent_t event_ = nullptr;
};

// A record of what was put into a stream, to be put there as often as it is launched: with the arguments of then, and each time
// with what the memory holds by then.
class Graph {
 public:
  // Calls `put`, which puts work into the stream, and into others that wait for it and that it waits for at last. Nothing of it
  // is done. Throws DeviceError where the runtime refuses that, and what `put` throws; then nothing is in the stream.
  Graph(const Stream& stream, const std::function<void()>& put);
  ~Graph();  // waits for launches
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  void launch(const Stream& stream) const;

 private:
  const Stream& stream_;
  hipGraphExec_t graph_ = nullptr;
};

// Moments in a stream by the host's clock, which an Event does not tell: it is made without times, and so costs less.
// Thread: one at a time.
class Marks {
 public:
  explicit Marks(const Stream& stream) : stream_(stream) {}
  ~Marks();
  Marks(const Marks&) = delete;
  Marks& operator=(const Marks&) = delete;

  void add();                   // the stream's end as it is now
  std::vector<int64_t> take();  // DeviceOps::take_marks

 private:
  hipEvent_t next();

  const Stream& stream_;
  std::vector<hipEvent_t> events_;  // kept and used again
  size_t used_ = 0;
};

// Host memory that the device reads and writes by itself. On the device in use.
void* allocate_pinned(size_t bytes);
void release_pinned(void* memory) noexcept;

class PinnedMemory {
 public:
  PinnedMemory() = default;
  explicit PinnedMemory(size_t bytes);
  ~PinnedMemory();
  PinnedMemory(PinnedMemory&& other) noexcept;
  PinnedMemory& operator=(PinnedMemory&& other) noexcept;

  template <typename T>
  T* data() const {
    return static_cast<T*>(memory_);
  }
  size_t bytes() const { return bytes_; }

 private:
  void* memory_ = nullptr;
  size_t bytes_ = 0;
};

// Copies to the device that the caller need not wait for: what it gave is taken at once, into pinned memory.
// Thread: one at a time.
class QuickCopies {
 public:
  static constexpr size_t kLargest = size_t{1} << 20;  // bytes of one

  explicit QuickCopies(const Stream& stream) : stream_(stream) {}
  // In the stream. `bytes` is at most kLargest. Waits only while as many copies as there are slots are under way.
  void copy(void* to, const void* host_from, size_t bytes);

 private:
  struct Slot {
    PinnedMemory memory;
    std::optional<Event> copied;
  };
  const Stream& stream_;
  std::array<Slot, 8> slots_;
  size_t next_ = 0;
};

// Advice for whoever runs out of the device's memory.
inline constexpr const char* kMemoryAdvice = ": lower batch_size or set recompute; for texts, lower --cache_mib";
// On the device in use. "hip: out of memory: asked 512 MiB, 310 free: lower ..."
void* allocate_on_device(size_t bytes);
void release_on_device(void* memory) noexcept;

inline constexpr int kThreads = 256;  // of a block, unless a kernel says otherwise

inline int64_t blocks_for(int64_t count, int64_t per_block) {
  return (count + per_block - 1) / per_block;
}

// Puts a kernel into a stream. No blocks: nothing to do.
template <typename... Parameters, typename... Arguments>
void launch(const Stream& stream, const char* name, void (*kernel)(Parameters...), int64_t blocks, int threads,
            Arguments... arguments) {
  if (blocks == 0) return;
  stream.use();
  const auto count = static_cast<unsigned>(blocks);
#if defined(HOLDFAST_HIP_ON_CPU)
  check(
      shim::launch(count, static_cast<unsigned>(threads), stream.get(), [=] { kernel(static_cast<Parameters>(arguments)...); }),
      name);
#else
  // The brackets are not known to the formatter.
  // clang-format off
  kernel<<<dim3(count), dim3(static_cast<unsigned>(threads)), 0, stream.get()>>>(static_cast<Parameters>(arguments)...);
  // clang-format on
  check(hipGetLastError(), name);
#endif
}

}  // namespace holdfast::kernels::hip
