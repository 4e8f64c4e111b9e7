// The schedule of a collective: which chunks each rank sends and receives, in which order, as data: no sockets, no clock.
//
// The nouns, and the steps and bytes of each operation, are in README.md beside this file. A rank's *outgoing stream* is its
// chunks in a fixed order to its successor, and its *incoming stream* is exactly its predecessor's outgoing stream. An
// outgoing chunk may leave once `after` incoming chunks are done: that one number is the whole dependency between the two
// streams, so pipelining is no special case.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "worker/collectives/sum_part.h"

namespace holdfast::worker {

enum class Element : uint8_t { kByte = 0, kInt32 = 1, kFloat = 2, kInt16 = 3, kBFloat16 = 4, kFloat16 = 5 };

constexpr size_t element_bytes(Element element) {
  switch (element) {
    case Element::kByte:
      return 1;
    case Element::kInt32:
    case Element::kFloat:
      return 4;
    default:
      return 2;
  }
}

struct OutgoingChunk {
  std::span<const std::byte> bytes;
  size_t after;    // incoming chunks that must be done first
  bool forwarded;  // these are the bytes of incoming chunk `after - 1`, untouched
};

struct IncomingChunk {
  std::span<std::byte> bytes;  // where it is stored
  const std::byte* addend;     // the numbers that are then added to it, as many bytes; null: none
};

struct Schedule {
  std::vector<OutgoingChunk> outgoing;
  std::vector<IncomingChunk> incoming;
};

// Ends the process (worker/invariants/invariant.h) unless every outgoing chunk can leave: the incoming chunks that it waits for
// are in the schedule, and a forwarded one has the very bytes of the chunk that it forwards.
void require_sound(const Schedule& schedule);

// `mine` and `sum` are equally long, whole elements, and do not overlap; `mine` is only read. Both are cut into
// slices of N chunks, and a slice into N segments, which differ by at most one element and may be empty; only the last slice is
// shorter. Step s of a slice sends segment (r - s) mod N and receives (r - 1 - s) mod N: N-1 steps that add, then N-1 that
// store. The slices follow each other by one step, so what was added is sent on while it is still in the cache. Tried first:
// one slice, as the textbook has it; over loopback that is 1.3 times slower, as each half of the work finds memory cold.
Schedule all_reduce_schedule(int rank, int world_size, std::span<const std::byte> mine, std::span<std::byte> sum,
                             Element element, size_t chunk_bytes);

// As all_reduce_schedule, but each part's sum is only at the ranks that it ends at and goes on to: elsewhere, and outside of
// all parts, `sum` is unspecified. A link carries at most the whole buffer once, and each part `further` times more on some
// link. Parts that end at one rank follow each other; those of different ends go side by side.
Schedule reduce_scatter_schedule(int rank, int world_size, std::span<const std::byte> mine, std::span<std::byte> sum,
                                 Element element, std::span<const SumPart> parts, size_t chunk_bytes);

// Step s sends the block of rank (r - s) mod N and receives that of (r - 1 - s) mod N. `blocks` is by rank, this rank's
// filled in.
Schedule all_gather_schedule(int rank, std::span<const std::span<std::byte>> blocks, size_t chunk_bytes);

// `outgoing` is by destination, `incoming` by origin, this rank's own left alone; blocks for one rank are equally long,
// whoever they are from, and every rank knows all lengths. Step s sends the blocks of origin (r + 1 - s) mod N that go s ranks
// from there or further, the furthest first, and receives those of origin (r - s) mod N; the last of them is for this rank, the
// others are passed on in step s + 1. They stay in `transit` until then, which is made long enough: (N-1)(N-2)/2 blocks, as no
// memory is used twice within a schedule. A link carries N(N-1)/2 blocks.
Schedule all_to_all_schedule(int rank, std::span<const std::span<const std::byte>> outgoing,
                             std::span<const std::span<std::byte>> incoming, std::vector<std::byte>& transit,
                             size_t chunk_bytes);

// Pieces for the successor, and those that come from the predecessor. A piece that is in both lists (the same memory) is sent
// on as it arrives; every other one is there already. Both lists are in the same order as far as they share pieces.
Schedule relay_schedule(std::span<const std::span<const std::byte>> outgoing, std::span<const std::span<std::byte>> incoming,
                        size_t chunk_bytes);

// The root sends, everyone stores and passes on, but for the root's predecessor.
Schedule broadcast_schedule(int rank, int world_size, std::span<std::byte> buffer, int root, size_t chunk_bytes);

}  // namespace holdfast::worker
