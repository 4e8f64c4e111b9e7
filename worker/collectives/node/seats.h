// A meeting of the ranks of one node in the memory that they share: who has come how far, and waiting for each other.
//
// Nouns: a *seat* is a rank's number within its node, by rank; seat 0 leads. A *call* is an all-reduce; its work is *pieces*,
// which are numbered from the first call on, alike on all seats.
// Promises: nobody waits for longer than the limits allow, nor for a rank whose connection to a neighbour on the ring ended,
// nor for one that gave up. A call that is not the same on all seats fails with a sentence.
// Thread: the one that calls the ring's collectives; wake() any.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "worker/collectives/ring.h"
#include "worker/collectives/schedule.h"
#include "worker/transport/shared_memory.h"

namespace holdfast::worker {

class Seats {
 public:
  // The call that a seat is at, in its own words.
  struct About {
    uint64_t number, bytes, element;
    bool operator==(const About&) const = default;
  };
  // Whether the seats' devices sum among themselves (device_sums.h).
  enum class Devices : uint32_t { kNotYet, kConnected, kNot };

  // Of so many seats, at the memory's beginning.
  static size_t memory_bytes(size_t seats);
  // `memory` is the same on all seats, and zero when the first is made. `ranks` by seat. `ring` is the ring of all ranks, of
  // all nodes: it says who is gone, and learns of failures here. Both outlive this.
  Seats(std::span<std::byte> memory, std::vector<int> ranks, size_t seat, Ring& ring);

  size_t count() const { return ranks_.size(); }
  size_t own() const { return seat_; }
  const std::vector<int>& ranks() const { return ranks_; }
  Ring& ring() const { return ring_; }

  // Begins a call of so many pieces on this seat: the number of the first. An error: the ring has failed.
  CollectiveResult<uint64_t> begin_call(size_t bytes, Element element, uint64_t pieces);
  // The number of the next call.
  uint64_t next_call() const { return calls_ + 1; }
  // After all have filled the call's first piece: an error unless they are at the same call.
  CollectiveResult<void> require_same_call() const;

  // This seat has brought, or added up, or on seat 0 carried, all pieces below `end`.
  void set_filled(uint64_t end);
  void set_added(uint64_t end);
  void set_carried(uint64_t end);
  // They wait until all seats have; `what` is what the late one is to do.
  CollectiveResult<void> await_filled(uint64_t end);
  CollectiveResult<void> await_added(uint64_t end);
  CollectiveResult<void> await_carried(uint64_t end);

  // Waits as those do, but for something else: until `is_done`, which is asked again and again.
  CollectiveResult<void> await_done(const std::function<bool()>& is_done, const char* what);

  // The call failed on this seat: all others learn it.
  void give_up(const CollectiveError& error);
  void wake();  // any thread: who waits looks at the ring again
  // For the leader's ring between nodes to count in: bytes that move there are progress for all who wait for the leader.
  std::atomic<uint64_t>& bytes_between();

  // --- for the devices. Any thread.
  using DeviceId = std::array<std::byte, 128>;
  void publish_device_id(const DeviceId& id);  // seat 0
  std::optional<DeviceId> device_id() const;   // once it is published
  void set_devices(Devices state);             // of this seat
  Devices devices() const;                     // of all: connected when all are, not when one is not
  // The first call whose sums go from device to device, which seat 0 chooses within its begin_call; 0: it has not chosen. The
  // same on all seats that have waited for all to fill a piece of the call before.
  uint64_t devices_from() const;

 private:
  struct Common;
  struct Seat;
  struct Wait;
  using LateSeat = std::function<std::optional<size_t>()>;  // the seat that is waited for; nothing: none any more

  Common& common() const;
  Seat& seat(size_t number) const;
  void announce();
  CollectiveResult<void> await_seats(std::atomic<uint64_t> Seat::*counter, uint64_t end, const char* what);
  // `among` as in Ring::trouble(); `look` at least as often.
  CollectiveResult<void> await(const LateSeat& late_seat, const char* what, std::span<const int> among,
                               std::chrono::microseconds look);
  CollectiveResult<void> judge(Wait& wait, int rank, const char* what) const;  // whether to wait on for `rank`
  uint64_t progress() const;

  std::span<std::byte> memory_;
  std::vector<int> ranks_;
  size_t seat_;
  Ring& ring_;
  uint64_t pieces_ = 0, calls_ = 0;
  std::atomic<bool> woken_ = false;
};

}  // namespace holdfast::worker
