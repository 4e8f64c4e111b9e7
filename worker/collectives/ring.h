// Runs schedules over the two connections of a formed ring, until one fails.
//
// One loop: send what may go, receive what is there, wait for either. A deadline is renewed only by bytes that moved.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "worker/collectives/communicator.h"
#include "worker/collectives/forming.h"
#include "worker/collectives/stream.h"

namespace holdfast::worker {

// How long a rank waits for others in an operation while no bytes move: until `timeout`, when it fails. After `quiet`,
// `on_quiet` is told once for whom it waits, on the waiting thread.
struct WaitLimits {
  std::chrono::milliseconds timeout, quiet{0};
  std::function<void(const CollectiveError&)> on_quiet = {};
};

class Ring {
 public:
  // `ranks` of the members, in the ring's order, of which this one is number `place`.
  Ring(Transport& transport, RingConnections connections, const RingOptions& options, std::span<const int> ranks, size_t place);

  // Numbers the operation, and runs it. After the first failure the connections are closed, and every later run returns
  // that failure.
  CollectiveResult<void> run(Operation operation, const Schedule& schedule);

  void set_limits(WaitLimits limits) { limits_ = std::move(limits); }
  const WaitLimits& limits() const { return limits_; }
  void abort(const std::string& reason);  // any thread
  // Between runs, for a rank that waits for other things of these ranks: the reason to give up, if there is one. It is an
  // earlier failure, abort(), or a neighbour that has ended its connection; with `among` a neighbour that is one of these
  // ranks.
  std::optional<CollectiveError> trouble(std::span<const int> among = {});
  // The same as if a run had failed so: closes the connections. An earlier failure stays the one that counts.
  void fail(const CollectiveError& error);
  // Counts in `counter`, too, what bytes_moved() counts. It outlives the ring.
  void count_in(std::atomic<uint64_t>& counter) { also_counted_ = &counter; }
  // Blocks until a neighbour ends its connection, between runs, or `stop` is requested. Any thread, while none runs.
  std::optional<CollectiveError> wait_for_lost_peer(std::stop_token stop) const;
  size_t chunk_bytes() const { return chunk_bytes_; }
  std::string encryption() const;  // of both connections, in words; "": none
  uint64_t bytes_moved() const { return bytes_moved_.load(std::memory_order_relaxed); }

 private:
  struct Progress;

  Operation over(const Connection& connection, Operation operation) const;
  CollectiveResult<void> drive(Progress& progress);
  CollectiveResult<bool> move_bytes(Progress& progress);
  CollectiveResult<void> wait_for_bytes(Progress& progress);
  CollectiveResult<void> watch_successor(Progress& progress);

  CollectiveError lost(const Progress& progress, bool outgoing, const TransportError& error) const;
  CollectiveError stalled(const Progress& progress, std::chrono::milliseconds for_so_long) const;
  std::optional<CollectiveError> aborted();
  std::array<Connection*, 2> neighbours() const {
    return {connections_.to_successor.get(), connections_.from_predecessor.get()};
  }
  CollectiveError ended(size_t neighbour, const std::string& meanwhile) const;

  Transport& transport_;
  RingConnections connections_;
  int successor_, predecessor_;
  WaitLimits limits_;
  uint64_t chunk_bytes_;
  bool checksums_within_node_;
  uint64_t operations_ = 0;
  std::optional<CollectiveError> poison_;
  std::atomic<uint64_t> bytes_moved_{0};
  std::atomic<uint64_t>* also_counted_ = nullptr;

  std::atomic<bool> abort_requested_{false};
  std::mutex abort_mutex_;  // guards abort_reason_
  std::string abort_reason_;
};

}  // namespace holdfast::worker
