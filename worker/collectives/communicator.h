// Collectives among the members of one generation, over a ring of authenticated connections.
//
// Nouns: rank r sends only to its successor (r + 1) % N and receives only from its predecessor (r - 1) % N. A buffer is
// cut into N segments; a segment travels in chunks, and a chunk that arrived is added and sent on while the next is
// still under way. The ring all-reduce (Patarasuk, Yuan 2009) moves 2 (N-1)/N of the buffer each way per rank. Where several
// ranks share a node, an all-reduce sums within each node first (hierarchical_reduce.h).
//
// Promises: integer sums have the same bits in any order of the ring; float sums are taken in ring order (16-bit ones are
// rounded after each addition), and all ranks have the same bits. Every call ends by its deadline: no bytes moved for
// `timeout`, or abort(). The first failure poisons the communicator: every later call fails with the same error, and its
// sockets are closed, so that neighbours notice at once. After a failed call the contents of its result are unspecified.
// Refuses: a connection of another job, generation or rank, or without the generation's secret.
// Thread: one thread at a time calls collectives; abort() may come from any.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <tl/expected.hpp>
#include <vector>

#include "kernels/device_sums.h"
#include "worker/collectives/half_floats.h"
#include "worker/collectives/sum_part.h"
#include "worker/transport/transport.h"

namespace holdfast::worker {

struct CollectiveError {
  // kConnectionLost also means that a neighbour sent bytes that were not agreed on, or that were altered on the way: the
  // connection is of no use any more.
  enum class Kind { kConnectionLost, kTimeout, kHandshakeFailed, kAborted };
  Kind kind;
  int suspect_rank = -1;  // the neighbour that this points at
  std::string detail;     // "connection to rank 2 (10.0.0.3:41234) was reset while receiving (all-reduce, 61 of 120 MB)"
  bool ended = false;     // the suspect, or its kernel, ended or refused the connection: it may be gone
};
// Thrown out of a forward or backward pass in whose middle a collective failed.
struct RingFailed {
  CollectiveError error;
};
template <typename T>
using CollectiveResult = tl::expected<T, CollectiveError>;

struct RingOptions {
  std::string job;
  int64_t generation = 0;
  int rank = 0;
  std::vector<std::string> addresses;             // by rank, "host:port"
  std::string secret;                             // hex
  bool encrypted = false;                         // TLS 1.3 on every connection, within a node, too; the same on all ranks
  std::chrono::milliseconds timeout{30000};       // no bytes moved for so long: fail
  std::chrono::milliseconds form_timeout{10000};  // for all handshakes together
  size_t chunk_bytes = 256 << 10;                 // the same on all ranks
  bool checksums_within_node = false;             // of all-reduce, between ranks on one node; the same on all ranks
  std::stop_token stop = {};                      // ends form() early, with kAborted; any thread may request it
};

// A rank's device, where it can sum with others of its node.
struct OwnDevices {
  std::unique_ptr<kernels::DeviceSums> sums;  // null: it cannot
  // Told by another thread, after a while: the library that connects the devices, or, where it is this device that they cannot
  // be connected for, the reason.
  std::function<void(const std::string& library, const std::string& why_not)> on_connected;
};

// An all-reduce's numbers on a rank's device.
struct DeviceMemory {
  const void* mine;
  void* sum;
  // Staging memory of the device's op set, as long as those, for the sum within the node and the sum over all: unspecified
  // afterwards.
  std::byte *on_host, *total_on_host;
  size_t count;
  kernels::DeviceSums::Element element;
  kernels::DeviceSums::Moment after;  // mine is final
};

class Communicator {
 public:
  // Connects to the successor and accepts the predecessor; both have proven (job, generation, rank, secret).
  // A world of one needs no transport traffic and never fails.
  static CollectiveResult<std::unique_ptr<Communicator>> form(Transport& transport, const RingOptions& options);
  ~Communicator();

  int rank() const;
  int world_size() const;
  // How the connections to both neighbours are encrypted, in words; "": they are not.
  std::string encryption() const;

  // Once, before the first all-reduce, on all ranks: ranks that say the same of their node (Transport::node) sum within it in
  // shared memory from now on; "": alone. Where memory cannot be shared all ranks go on without, and that is no error. Ranks
  // that bring devices go over to sums from device to device once those of their node are connected.
  CollectiveResult<void> share_memory(const std::string& node, OwnDevices devices = {});
  // How many nodes' ranks sum in shared memory before the ring between nodes; 0: all ranks are in one ring.
  int nodes() const;
  // The reason why ranks that share a node do not share memory, as a sentence; "": they do, or there are none.
  const std::string& memory_refused() const;

  // Writes the sum over all ranks of `mine`, element by element, into `sum`, which is equally long and other memory. `mine`
  // is only read: after a call that failed, a rank still has its own numbers.
  CollectiveResult<void> all_reduce_sum(std::span<const int32_t> mine, std::span<int32_t> sum);
  CollectiveResult<void> all_reduce_sum(std::span<const int16_t> mine, std::span<int16_t> sum);
  CollectiveResult<void> all_reduce_sum(std::span<const float> mine, std::span<float> sum);
  CollectiveResult<void> all_reduce_sum(std::span<const BFloat16> mine, std::span<BFloat16> sum);
  CollectiveResult<void> all_reduce_sum(std::span<const Float16> mine, std::span<Float16> sum);
  // As all_reduce_sum, but each part's sum (sum_part.h) goes only to the ranks that the part says; on others, and outside of
  // all parts, `sum` is unspecified. Parts do not overlap. Over the ring of all ranks, whatever memory they share. All ranks
  // give the same parts.
  CollectiveResult<void> reduce_scatter_sum(std::span<const int32_t> mine, std::span<int32_t> sum,
                                            std::span<const SumPart> parts);
  CollectiveResult<void> reduce_scatter_sum(std::span<const int16_t> mine, std::span<int16_t> sum,
                                            std::span<const SumPart> parts);
  // --- Sums from device to device. Whether they are to be used, by all ranks of this node, for the all-reduce that is called
  // next; it does not change back. Any thread: "true" counts for what becomes final from now on.
  bool sums_on_devices() const;
  // The moment when all is done that is queued on the device now; on the thread of the device's op set, while
  // sums_on_devices().
  kernels::DeviceSums::Moment queued_on_device();
  CollectiveResult<void> all_reduce_sum(const DeviceMemory& memory);  // of memory of the device

  // Returns every rank's bytes, by rank; sizes may differ.
  CollectiveResult<std::vector<std::vector<std::byte>>> all_gather(std::span<const std::byte> mine);
  // The same when every rank knows all lengths: `blocks` is by rank, this rank's filled in.
  CollectiveResult<void> all_gather_into(std::span<const std::span<std::byte>> blocks);
  // Sends `outgoing[k]` to rank k, and receives the block that rank k has for this rank into `incoming[k]`. All blocks for
  // one rank are equally long, and every rank knows all lengths. A block goes round the ring, hop by hop: a link carries
  // N(N-1)/2 of them.
  CollectiveResult<void> all_to_all(std::span<const std::span<const std::byte>> outgoing,
                                    std::span<const std::span<std::byte>> incoming);
  // Copies `buffer` from `root` to all ranks, passed along the ring chunk by chunk.
  CollectiveResult<void> broadcast(std::span<std::byte> buffer, int root);

  // Sends `outgoing` to the successor, while the predecessor fills `incoming`. A piece that is in both (the same memory) is
  // sent on as it arrives, so a chain of ranks that want the same pieces has them as soon as one rank alone would. Neighbours
  // must agree on the pieces between them; if they do not, the call fails.
  CollectiveResult<void> relay(std::span<const std::span<const std::byte>> outgoing,
                               std::span<const std::span<std::byte>> incoming);

  // For the times between collectives, when no call reads: while the returned thread lives, it watches the neighbours'
  // connections, and calls `on_lost_peer` (on that thread, once) when one ends. Its destructor ends the watch. No collective
  // may be called meanwhile. In a world of one there is nothing to watch.
  std::jthread watch(std::function<void(const CollectiveError&)> on_lost_peer) const;

  // Sets the timeout of the operations from now on; until then it is RingOptions::timeout. When no bytes have moved for
  // `quiet`, `on_quiet` is told, on the calling thread, for which rank this one waits, and the waiting goes on. Thread: the
  // one that calls collectives.
  void set_patience(std::chrono::milliseconds timeout, std::chrono::milliseconds quiet,
                    std::function<void(const CollectiveError&)> on_quiet);

  // Bytes sent and received over connections since it was formed; any thread.
  uint64_t bytes_moved() const;
  // Makes the call under way, and all later ones, fail with kAborted and `reason`, at once.
  void abort(const std::string& reason);

 private:
  struct Impl;
  explicit Communicator(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace holdfast::worker
