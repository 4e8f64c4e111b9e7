// All-reduce of ranks of which several share a node: summed within each node in memory (node/memory_sums.h), or from device to
// device (node/device_reduce.h), between the nodes by a ring of their leaders, and given out within each node again.
//
// N ranks on M nodes, S bytes: a flat ring has M links between nodes and 2 S (N-1)/N on each; here it is 2 S (M-1)/M. With two
// nodes of two ranks that is two thirds, and what stays within a node does not pass through the kernel. Promises: integer sums
// have the same bits as the ring's; float sums have the same bits on all ranks. Refuses to be formed where no two ranks share a
// node, or where they cannot share memory: then the ring is used, on all ranks. Thread: the one that calls collectives; abort()
// any.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "worker/collectives/communicator.h"
#include "worker/collectives/node/device_reduce.h"
#include "worker/collectives/node/memory_sums.h"
#include "worker/collectives/node/seats.h"
#include "worker/collectives/ring.h"
#include "worker/transport/shared_memory.h"

namespace holdfast::worker {

// The ranks of each node, by rank; the first one leads.
using Groups = std::vector<std::vector<int>>;
// By what each rank says of its node, in the order of their first ranks. "" is a node of its own.
Groups group_by_node(std::span<const std::string> node_of_rank);

class HierarchicalReduce {
 public:
  // Every rank of `ring` calls it, with the same `groups`. `devices` are this rank's, if it has any. Gathers, through `flat`,
  // what the ranks must know of each other. Null: not to be had, on no rank, for the reason that `refused` then has. An error
  // is one of a ring.
  static CollectiveResult<std::unique_ptr<HierarchicalReduce>> form(Transport& transport, Communicator& flat, Ring& ring,
                                                                    const RingOptions& options, const Groups& groups,
                                                                    OwnDevices devices, const std::stop_token& stop,
                                                                    std::string& refused);

  CollectiveResult<void> run(std::span<const std::byte> mine, std::span<std::byte> sum, Element element);
  DeviceReduce& devices() { return *devices_; }
  CollectiveResult<void> run(const DeviceMemory& memory);  // while devices().is_on()

  void set_limits(const WaitLimits& limits);
  uint64_t bytes_moved() const { return between_ ? between_->bytes_moved() : 0; }  // to and from other nodes
  void abort(const std::string& reason);

 private:
  HierarchicalReduce(SharedMemory memory, std::unique_ptr<Ring> between)
      : memory_(std::move(memory)), between_(std::move(between)) {}
  static CollectiveResult<std::unique_ptr<Ring>> form_between(Transport& transport, const Ring& ring,
                                                              const RingOptions& options, const Groups& groups,
                                                              const std::stop_token& stop);
  CollectiveResult<void> then_choose(CollectiveResult<void> done);
  Carry carry(Element element);
  CollectiveResult<void> carry(std::span<const std::byte> sum, std::span<std::byte> total, Element element);

  SharedMemory memory_;
  std::unique_ptr<Seats> seats_;
  std::unique_ptr<MemorySums> sums_;
  std::unique_ptr<Ring> between_;  // of the leaders, on them; counts in the memory
  std::unique_ptr<DeviceReduce> devices_;
  int place_ = 0;  // in it
  int nodes_ = 1;
};

}  // namespace holdfast::worker
