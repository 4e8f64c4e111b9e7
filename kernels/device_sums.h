// Sums among the GPUs of one node, each of a process of its own, over what links them: by the vendor's library, RCCL or NCCL.
// Between nodes is the affair of worker/collectives, and so is who is waited for, and for how long.
//
// Nouns: a *seat* is a GPU's number among those that sum, from 0 on. A *moment* is a place in the op set's queue.
// Promises: nothing waits; what `begin_…` began goes on by itself until `is_done`, one at a time. Sums of int32 wrap around and
// have the same bits in any order; sums of floats are taken in an order of the library's, and all seats have the same bits.
// `mine` is only read. Throws std::runtime_error where the library fails, which may be another seat's end; DeviceFailure
// (ops.h) where this device does.
// Ownership: its op set outlives it; memory is the caller's, who leaves it alone from `begin_…` until `is_done` or `abort`.
// Thread: the op set's for `queued`; of all else one at a time, and any.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace holdfast::kernels {

class DeviceSums {
 public:
  enum class Element : uint8_t { kInt32, kFloat };
  enum class To : uint8_t { kAllSeats, kFirstSeat };
  using Id = std::array<std::byte, 128>;  // of one connection: seat 0 makes it, and tells the others
  using Moment = uint64_t;

  virtual ~DeviceSums() = default;  // aborts

  virtual std::string library() const = 0;  // "RCCL 2.22.3"
  virtual Id make_id() = 0;
  virtual void begin_connecting(const Id& id, int seats, int seat) = 0;
  virtual bool is_done() = 0;  // the last of them

  // When all is done that is queued now.
  virtual Moment queued() = 0;

  // --- Once connected. All seats begin the same, in the same order. Memory is the device's.
  // sum[i] = mine[i] of all seats, on the seats that it goes to; on the others `sum` is left as it is. Begins after the moment.
  virtual void begin_sum(void* sum, const void* mine, size_t count, Element element, To to, Moment after) = 0;
  // Seat 0's bytes to all.
  virtual void begin_broadcast(void* memory, size_t bytes) = 0;

  // --- For seat 0, between the two. Staging memory is of the op set's allocate_staging.
  virtual void begin_copy_to_host(void* staging_to, const void* from, size_t bytes) = 0;
  virtual void begin_copy_to_device(void* to, const void* staging_from, size_t bytes) = 0;

  // Breaks off what was begun, on this seat; there are no sums any more. Returns when nothing touches the memory.
  virtual void abort() noexcept = 0;
};

}  // namespace holdfast::kernels
