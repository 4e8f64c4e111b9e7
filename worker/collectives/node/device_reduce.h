// Sums within a node from device to device: ranks whose GPUs share a node add up what lies in their memory, by kernels'
// DeviceSums, and no byte passes through the host, but for those of the leader that go on to other nodes.
//
// The devices are connected beside the training, by a thread of their own: a generation begins with sums through the host's
// memory (memory_sums.h) and goes over to these between two calls, on all seats at the same one. Where they cannot be connected
// it stays as it began.
// Promises: as DeviceSums and seats.h. A call that fails breaks off the device's part of it before it returns.
// Thread: the one that calls the ring's collectives; is_on() and queued() say theirs.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <thread>

#include "kernels/device_sums.h"
#include "worker/collectives/node/memory_sums.h"
#include "worker/collectives/node/seats.h"

namespace holdfast::worker {

class DeviceReduce {
 public:
  // `own` without sums: this seat has none, so none of the node has. `carried`, `piece_bytes` as MemorySums has them. `seats`
  // outlive this.
  DeviceReduce(Seats& seats, OwnDevices own, size_t piece_bytes, bool carried);

  // Whether the next call is one of `run`; any thread.
  bool is_on() const { return on_.load(); }
  // After each call of either kind.
  void choose_next() { on_.store(seats_.devices_from() != 0 && seats_.next_call() >= seats_.devices_from()); }
  // The moment in the op set's queue; on its thread.
  kernels::DeviceSums::Moment queued() { return sums_->queued(); }

  // Staging memory is used on a leader that carries sums on to other nodes, and there alone.
  CollectiveResult<void> run(const DeviceMemory& memory, const Carry& carry);

 private:
  void connect(const std::stop_token& stop);
  struct Outcome {
    bool connected = false;
    std::string why_not;  // "": another seat knows, or the generation ended
  };
  Outcome try_to_connect(const std::stop_token& stop);
  CollectiveResult<void> sum(const DeviceMemory& memory, const Carry& carry);
  CollectiveResult<void> carry_on(const DeviceMemory& memory, const Carry& carry, uint64_t piece);
  CollectiveResult<void> await_device(const char* what);

  Seats& seats_;
  std::unique_ptr<kernels::DeviceSums> sums_;
  decltype(OwnDevices::on_connected) on_connected_;
  size_t piece_bytes_;
  bool carried_;
  std::atomic<bool> on_ = false;
  std::jthread connecting_;  // last: it uses the others
};

}  // namespace holdfast::worker
