#include "worker/collectives/schedule.h"

#include <algorithm>

namespace holdfast::worker {
namespace {

constexpr size_t kElementBytes = 4;
// A segment is cut into at least so many chunks, so that a step's first part is on its way while the rest arrives; but not
// into ones so small that system calls outweigh the bytes.
constexpr size_t kChunksPerSegment = 4;
constexpr size_t kChunkBytesMin = 16 << 10;

int modulo(int a, int n) {
  return ((a % n) + n) % n;
}

size_t chunk_count(size_t bytes, size_t chunk_bytes) {
  return (bytes + chunk_bytes - 1) / chunk_bytes;
}

// The chunk size for a segment of this size: a pure function, so that both ends of a connection cut alike.
size_t fitted_chunk(size_t segment_bytes, size_t chunk_bytes) {
  const size_t wanted = std::max(segment_bytes / kChunksPerSegment, std::min(kChunkBytesMin, chunk_bytes));
  return std::max(kElementBytes, std::min(wanted, chunk_bytes) / kElementBytes * kElementBytes);
}

std::span<std::byte> segment(std::span<std::byte> buffer, int index, int world_size) {
  const size_t elements = buffer.size() / kElementBytes;
  const size_t base = elements / world_size, longer = elements % world_size;
  const size_t i = static_cast<size_t>(index);
  const size_t first = i * base + std::min(i, longer);
  const size_t count = base + (i < longer ? 1 : 0);
  return buffer.subspan(first * kElementBytes, count * kElementBytes);
}

template <typename Take>
void for_each_chunk(std::span<std::byte> bytes, size_t chunk_bytes, Take take) {
  for (size_t at = 0; at < bytes.size(); at += chunk_bytes) take(bytes.subspan(at, std::min(chunk_bytes, bytes.size() - at)));
}

}  // namespace

Schedule all_reduce_schedule(int rank, int world_size, std::span<std::byte> buffer, size_t chunk_bytes) {
  Schedule schedule;
  // All segments are cut by the longest one's chunk size, the first's.
  const size_t chunk = fitted_chunk(segment(buffer, 0, world_size).size(), chunk_bytes);
  const int add_steps = world_size - 1;
  for (int step = 0; step < 2 * add_steps; ++step) {
    // What is sent at this step came at the last one: the same segment, chunk by chunk.
    const auto sent = segment(buffer, modulo(rank - step, world_size), world_size);
    size_t after = schedule.incoming.size() - (step == 0 ? 0 : chunk_count(sent.size(), chunk));
    for_each_chunk(sent, chunk, [&](std::span<std::byte> bytes) {
      schedule.outgoing.push_back({bytes, step == 0 ? 0 : ++after, step > add_steps});
    });
    const auto received = segment(buffer, modulo(rank - 1 - step, world_size), world_size);
    for_each_chunk(received, chunk, [&](std::span<std::byte> bytes) {
      schedule.incoming.push_back({bytes, step < add_steps});
    });
  }
  return schedule;
}

Schedule all_gather_schedule(int rank, std::span<const std::span<std::byte>> blocks, size_t chunk_bytes) {
  Schedule schedule;
  const int world_size = static_cast<int>(blocks.size());
  for (int step = 0; step < world_size - 1; ++step) {
    const auto sent = blocks[modulo(rank - step, world_size)];
    size_t after = schedule.incoming.size() - (step == 0 ? 0 : chunk_count(sent.size(), chunk_bytes));
    for_each_chunk(sent, chunk_bytes, [&](std::span<std::byte> bytes) {
      schedule.outgoing.push_back({bytes, step == 0 ? 0 : ++after, step > 0});
    });
    const auto received = blocks[modulo(rank - 1 - step, world_size)];
    for_each_chunk(received, chunk_bytes, [&](std::span<std::byte> bytes) { schedule.incoming.push_back({bytes, false}); });
  }
  return schedule;
}

Schedule broadcast_schedule(int rank, int world_size, std::span<std::byte> buffer, int root, size_t chunk_bytes) {
  Schedule schedule;
  const bool is_root = rank == root, is_last = modulo(rank + 1, world_size) == root;
  size_t index = 0;
  for_each_chunk(buffer, chunk_bytes, [&](std::span<std::byte> bytes) {
    ++index;
    if (!is_root) schedule.incoming.push_back({bytes, false});
    if (!is_last) schedule.outgoing.push_back({bytes, is_root ? 0 : index, !is_root});
  });
  return schedule;
}

}  // namespace holdfast::worker
