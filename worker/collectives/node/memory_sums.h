// Sums within a node: ranks that share memory add up what each of them brings, a piece at a time, without a byte through the
// kernel. One of them, the leader, may carry each piece's sum on to other nodes before all take it.
//
// Every seat (seats.h) has a *slot* in the memory, into which it copies a piece of its own numbers. The sum of a piece is made
// in as many shares as there are seats, one by each, and read by all. Slots and sums are double, so the next piece is filled
// while the last one is taken.
// Promises: an element's sum is taken in the order of the seats, so all have the same bits, float sums too. `mine` is only
// read. Waits as seats.h says.
// Thread: the one that calls the ring's collectives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "worker/collectives/node/seats.h"

namespace holdfast::worker {

// Carries a piece's sum over a node's ranks to the other nodes, and writes the sum over all ranks to `total`.
using Carry = std::function<CollectiveResult<void>(std::span<const std::byte> sum, std::span<std::byte> total)>;

class MemorySums {
 public:
  // Of so many seats, theirs included, with pieces of so many bytes; `carried`: there are other nodes.
  static size_t memory_bytes(size_t seats, size_t piece_bytes, bool carried);

  // `memory` is all of it, the seats' at its beginning. `seats` outlive this.
  MemorySums(std::span<std::byte> memory, Seats& seats, size_t piece_bytes, bool carried);

  // Writes the sum to `sum`, as long as `mine`. All seats call it with the same length and element. `carry` on the leader
  // alone, and only where there are other nodes; it is called for one piece after the other.
  CollectiveResult<void> run(std::span<const std::byte> mine, std::span<std::byte> sum, Element element, const Carry& carry);

 private:
  struct Call;

  std::span<std::byte> slot(size_t number, uint64_t piece) const;
  std::span<std::byte> sum_of(uint64_t piece) const;
  std::span<std::byte> total_of(uint64_t piece) const;

  CollectiveResult<void> all_pieces(const Call& call);
  CollectiveResult<void> fill(const Call& call, uint64_t piece);
  CollectiveResult<void> add_share(const Call& call, uint64_t piece);
  CollectiveResult<void> carry_on(const Call& call, uint64_t piece);
  CollectiveResult<void> take(const Call& call, uint64_t piece);

  std::span<std::byte> memory_;
  Seats& seats_;
  size_t piece_bytes_;
  bool carried_;
};

}  // namespace holdfast::worker
