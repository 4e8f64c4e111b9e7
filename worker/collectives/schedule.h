// What each rank sends and receives in a collective, chunk by chunk, as data: no sockets, no clock.
//
// Nouns. An *operation* is one collective call. Its data is cut into *segments* (all-reduce) or *blocks* (all-gather: one
// a rank); these travel in *chunks*. A rank's *outgoing stream* is its chunks in a fixed order to its successor, and its
// *incoming stream* is exactly its predecessor's outgoing stream. An outgoing chunk may leave once `after` incoming chunks
// are done: that one number is the whole dependency between the two streams, so pipelining is nobody's special case.
//
// N ranks, a buffer of S bytes (all-gather: the sum of all blocks), chunks of C bytes:
//
//   operation    steps     sent by each rank        before the first byte is everywhere
//   all-reduce   2 (N-1)   2 S (N-1) / N            2 (N-1) chunks one behind the other
//   all-gather   N-1       S - the successor's      N-1 blocks
//   broadcast    -         S, but the last one 0    N-1 chunks
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace holdfast::worker {

enum class Element : uint8_t { kByte = 0, kInt32 = 1, kFloat = 2 };

struct OutgoingChunk {
  std::span<const std::byte> bytes;
  size_t after;    // incoming chunks that must be done first
  bool forwarded;  // these are the bytes of incoming chunk `after - 1`, untouched
};

struct IncomingChunk {
  std::span<std::byte> bytes;  // where it goes
  bool add;                    // added to what is there, or stored over it
};

struct Schedule {
  std::vector<OutgoingChunk> outgoing;
  std::vector<IncomingChunk> incoming;
};

// Segment i of `buffer`, and which chunks it is cut into. `bytes` are whole elements of 4 bytes. Segments differ by at most
// one element; with fewer elements than ranks some are empty.
// Step s sends segment (r - s) mod N and receives (r - 1 - s) mod N: N-1 steps that add, then N-1 that store.
Schedule all_reduce_schedule(int rank, int world_size, std::span<std::byte> buffer, size_t chunk_bytes);

// Step s sends the block of rank (r - s) mod N and receives that of (r - 1 - s) mod N. `blocks` is by rank, this rank's
// filled in.
Schedule all_gather_schedule(int rank, std::span<const std::span<std::byte>> blocks, size_t chunk_bytes);

// The root sends, everyone stores and passes on, but for the root's predecessor.
Schedule broadcast_schedule(int rank, int world_size, std::span<std::byte> buffer, int root, size_t chunk_bytes);

}  // namespace holdfast::worker
