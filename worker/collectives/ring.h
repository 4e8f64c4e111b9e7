// Runs schedules over the two connections of a formed ring, until one fails.
//
// One loop: send what may go, receive what is there, wait for either. A deadline is renewed only by bytes that moved.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "worker/collectives/communicator.h"
#include "worker/collectives/forming.h"
#include "worker/collectives/stream.h"

namespace holdfast::worker {

class Ring {
 public:
  Ring(Transport& transport, RingConnections connections, const RingOptions& options);

  // Numbers the operation, and runs it. After the first failure the connections are closed, and every later run returns
  // that failure.
  CollectiveResult<void> run(Operation operation, const Schedule& schedule);

  void set_patience(std::chrono::milliseconds timeout, std::chrono::milliseconds quiet,
                    std::function<void(const CollectiveError&)> on_quiet);
  void abort(const std::string& reason);  // any thread
  // Blocks until a neighbour ends its connection, between runs, or `stop` is requested. Any thread, while none runs.
  std::optional<CollectiveError> wait_for_lost_peer(std::stop_token stop) const;
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

  Transport& transport_;
  RingConnections connections_;
  int successor_, predecessor_;
  std::chrono::milliseconds timeout_, quiet_{0};
  std::function<void(const CollectiveError&)> on_quiet_;
  uint64_t chunk_bytes_;
  bool checksums_within_node_;
  uint64_t operations_ = 0;
  std::optional<CollectiveError> poison_;
  std::atomic<uint64_t> bytes_moved_{0};

  std::atomic<bool> abort_requested_{false};
  std::mutex abort_mutex_;  // guards abort_reason_
  std::string abort_reason_;
};

}  // namespace holdfast::worker
