// Sums within a node: ranks that share memory add up what each of them brings, a piece at a time, without a byte through the
// kernel. One of them, the leader, may carry each piece's sum on to other nodes before all take it.
//
// Nouns: a *seat* is a rank's number within its node, by rank; seat 0 leads. Every seat has a *slot* in the memory, into which
// it copies a piece of its own numbers. The sum of a piece is made in as many shares as there are seats, one by each, and read
// by all. Slots and sums are double, so the next piece is filled while the last one is taken.
// Promises: an element's sum is taken in the order of the seats, so all have the same bits, float sums too. `mine` is only
// read. Nobody waits for longer than the limits allow, nor for a rank whose connection to a neighbour on the ring ended.
// Thread: the one that calls the ring's collectives.
#pragma once

#include <atomic>
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

class NodeSums {
 public:
  // Carries a piece's sum over this node's ranks to the other nodes, and writes the sum over all ranks to `total`.
  using Carry = std::function<CollectiveResult<void>(std::span<const std::byte> sum, std::span<std::byte> total)>;

  // The memory of so many seats, with pieces of so many bytes; `carried`: they have other nodes.
  static size_t memory_bytes(size_t seats, size_t piece_bytes, bool carried);

  // `memory` is the same on all seats, and zero when the first is made. `ranks` by seat. `ring` is the ring of all ranks, of
  // all nodes: it says who is gone, and learns of failures here. Both outlive this.
  NodeSums(std::span<std::byte> memory, std::vector<int> ranks, size_t seat, size_t piece_bytes, bool carried, Ring& ring);

  // Writes the sum to `sum`, as long as `mine`. All seats call it with the same length and element. `carry` on the leader
  // alone, and only where there are other nodes; it is called for one piece after the other.
  CollectiveResult<void> run(std::span<const std::byte> mine, std::span<std::byte> sum, Element element, const Carry& carry);

  void wake();  // any thread: who waits looks at the ring again
  // For the leader's ring between nodes to count in: bytes that move there are progress for all who wait for the leader.
  std::atomic<uint64_t>& bytes_between();

 private:
  struct Seat;
  struct Common;
  struct Call;
  struct Wait;
  using LateSeat = std::function<std::optional<size_t>()>;  // the seat that is waited for; nothing: none any more

  Common& common() const;
  Seat& seat(size_t number) const;
  std::span<std::byte> slot(size_t number, uint64_t piece) const;
  std::span<std::byte> sum_of(uint64_t piece) const;
  std::span<std::byte> total_of(uint64_t piece) const;

  CollectiveResult<void> all_pieces(const Call& call);
  CollectiveResult<void> fill(const Call& call, uint64_t piece);
  CollectiveResult<void> add_share(const Call& call, uint64_t piece);
  CollectiveResult<void> carry_on(const Call& call, uint64_t piece);
  CollectiveResult<void> take(const Call& call, uint64_t piece);
  CollectiveResult<void> require_same_call(const Call& call) const;

  // Waits until `counter` is at least `target` in every seat.
  CollectiveResult<void> await_seats(std::atomic<uint64_t> Seat::*counter, uint64_t target, const char* what);
  // `what` the late seat is to do; `among` as in Ring::trouble().
  CollectiveResult<void> await(const LateSeat& late_seat, const char* what, std::span<const int> among);
  CollectiveResult<void> judge(Wait& wait, int rank, const char* what) const;  // whether to wait on for `rank`
  void give_up(const CollectiveError& error);
  uint64_t progress() const;
  void announce();

  std::span<std::byte> memory_;
  std::vector<int> ranks_;
  size_t seat_;
  size_t piece_bytes_;
  bool carried_;
  Ring& ring_;
  uint64_t pieces_ = 0;  // done in earlier calls
  uint64_t calls_ = 0;
  std::atomic<bool> woken_ = false;
};

}  // namespace holdfast::worker
