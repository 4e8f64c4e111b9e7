// Pure functions from (rank, world size, buffer) to streams of chunks; all ranks compute theirs alike.
#include "worker/collectives/schedule.h"

#include <algorithm>
#include <array>
#include <compare>
#include <map>
#include <string>

#include "worker/invariants/invariant.h"

namespace holdfast::worker {
namespace {

// A buffer is cut into at least so many slices, so that they follow each other closely; but chunks are not made so small
// that system calls outweigh the bytes.
constexpr size_t kSlicesMin = 8;
constexpr size_t kChunkBytesMin = 16 << 10;

int modulo(int a, int n) {
  return ((a % n) + n) % n;
}

size_t chunk_count(size_t bytes, size_t chunk_bytes) {
  return (bytes + chunk_bytes - 1) / chunk_bytes;
}

// How many elements a chunk of a buffer has: a pure function, so that all ranks cut alike.
size_t chunk_elements(size_t buffer_elements, size_t element_size, size_t world_size, size_t chunk_bytes) {
  const size_t most = std::max<size_t>(1, chunk_bytes / element_size);
  const size_t least = std::min(most, kChunkBytesMin / element_size);
  return std::clamp(buffer_elements / (kSlicesMin * world_size), least, most);
}

// Segment `index` of a slice: the segments differ by at most one element, and may be empty.
template <typename Byte>
std::span<Byte> segment(std::span<Byte> slice, size_t element_size, size_t index, size_t world_size) {
  const size_t elements = slice.size() / element_size;
  const size_t base = elements / world_size, longer = elements % world_size;
  const size_t first = index * base + std::min(index, longer);
  const size_t count = base + (index < longer ? 1 : 0);
  return slice.subspan(first * element_size, count * element_size);
}

template <typename Byte, typename Take>
void for_each_chunk(std::span<Byte> bytes, size_t chunk_bytes, Take take) {
  for (size_t at = 0; at < bytes.size(); at += chunk_bytes) take(bytes.subspan(at, std::min(chunk_bytes, bytes.size() - at)));
}

}  // namespace

void require_sound(const Schedule& schedule) {
  const auto& incoming = schedule.incoming;
  for (size_t i = 0; i < schedule.outgoing.size(); ++i) {
    const OutgoingChunk& chunk = schedule.outgoing[i];
    must_hold(chunk.after <= incoming.size(), [&] {
      return "outgoing chunk " + std::to_string(i) + " waits for incoming chunk " + std::to_string(chunk.after) + " of only " +
             std::to_string(incoming.size());
    });
    if (!chunk.forwarded) continue;
    const bool same = chunk.after > 0 && incoming[chunk.after - 1].bytes.data() == chunk.bytes.data() &&
                      incoming[chunk.after - 1].bytes.size() == chunk.bytes.size();
    must_hold(same, [&] {
      return "outgoing chunk " + std::to_string(i) + " of " + std::to_string(chunk.bytes.size()) +
             " bytes is not the incoming chunk " + std::to_string(chunk.after) + " that it forwards";
    });
  }
}

Schedule all_reduce_schedule(int rank, int world_size, std::span<const std::byte> mine, std::span<std::byte> sum,
                             Element element, size_t chunk_bytes) {
  Schedule schedule;
  const size_t ranks = static_cast<size_t>(world_size), size_of_one = element_bytes(element);
  const size_t slice_bytes = chunk_elements(sum.size() / size_of_one, size_of_one, ranks, chunk_bytes) * ranks * size_of_one;
  const size_t slices = chunk_count(sum.size(), slice_bytes);
  if (slices == 0) return schedule;
  const size_t add_steps = ranks - 1, steps = 2 * add_steps;
  std::vector<size_t> arrived(slices);  // incoming chunks up to and with the last one of this slice

  // Slice j does step s at time j + s. The newest slice goes first: so 2 (N-1) chunks lie between the arrival of a chunk and
  // its being sent on, and no link idles while they are added and on their way.
  for (size_t time = 0; time < slices + steps - 1; ++time) {
    for (size_t step = time < slices ? 0 : time - slices + 1; step < std::min(steps, time + 1); ++step) {
      const size_t slice = time - step;
      const size_t begin = slice * slice_bytes, size = std::min(slice_bytes, sum.size() - begin);
      const auto part = [&](auto buffer, int back) {
        const int index = modulo(rank - back - static_cast<int>(step), world_size);
        return segment(buffer.subspan(begin, size), size_of_one, static_cast<size_t>(index), ranks);
      };
      const auto sent = step == 0 ? part(mine, 0) : std::span<const std::byte>(part(sum, 0));
      if (!sent.empty()) schedule.outgoing.push_back({sent, step == 0 ? 0 : arrived[slice], step > add_steps});
      if (const auto received = part(sum, 1); !received.empty()) {
        schedule.incoming.push_back({received, step < add_steps ? part(mine, 1).data() : nullptr});
        arrived[slice] = schedule.incoming.size();
      }
    }
  }
  return schedule;
}

namespace {

// A chunk of a part on its way: it is on the link from rank end + 1 + h to the next one, its hop h, at time start + h.
struct Journey {
  size_t at, bytes;  // in the buffer
  int end, hops;
  size_t start;
};

// Journeys that end at one rank start one after the other, so no link has more than one of them at a time.
std::vector<Journey> journeys_of(std::span<const SumPart> parts, int world_size, size_t size_of_one, size_t most) {
  std::vector<Journey> journeys;
  std::vector<size_t> started(static_cast<size_t>(world_size));  // elements, by the rank that they end at
  for (const SumPart& part : parts) {
    for (size_t done = 0; done < part.count; done += most) {
      const size_t count = std::min(most, part.count - done);
      size_t& before = started[static_cast<size_t>(part.end)];
      journeys.push_back(
          {(part.first + done) * size_of_one, count * size_of_one, part.end, world_size - 1 + part.further, before / most});
      before += count;
    }
  }
  return journeys;
}

struct Crossing {
  size_t time;
  int hop;
  size_t journey;
  auto operator<=>(const Crossing&) const = default;
};

// The chunks that the link from `rank` to its successor carries, in order.
std::vector<Crossing> crossings_of(std::span<const Journey> journeys, int rank, int world_size) {
  std::vector<Crossing> crossings;
  for (size_t j = 0; j < journeys.size(); ++j) {
    for (int hop = modulo(rank - journeys[j].end - 1, world_size); hop < journeys[j].hops; hop += world_size)
      crossings.push_back({journeys[j].start + static_cast<size_t>(hop), hop, j});
  }
  std::ranges::sort(crossings);
  return crossings;
}

}  // namespace

Schedule reduce_scatter_schedule(int rank, int world_size, std::span<const std::byte> mine, std::span<std::byte> sum,
                                 Element element, std::span<const SumPart> parts, size_t chunk_bytes) {
  Schedule schedule;
  const size_t size_of_one = element_bytes(element);
  const auto journeys =
      journeys_of(parts, world_size, size_of_one,
                  chunk_elements(sum.size() / size_of_one, size_of_one, static_cast<size_t>(world_size), chunk_bytes));
  // By journey: its chunk that comes here on its first way round the ring, and the one that comes on its second.
  std::vector<std::array<size_t, 2>> arrived(journeys.size());
  for (const auto& [time, hop, j] : crossings_of(journeys, modulo(rank - 1, world_size), world_size)) {
    const bool adds = hop < world_size - 1;
    const size_t at = journeys[j].at;
    schedule.incoming.push_back({sum.subspan(at, journeys[j].bytes), adds ? mine.data() + at : nullptr});
    arrived[j][static_cast<size_t>(hop / world_size)] = schedule.incoming.size();
  }
  for (const auto& [time, hop, j] : crossings_of(journeys, rank, world_size)) {
    const size_t at = journeys[j].at, bytes = journeys[j].bytes;
    if (hop == 0) {
      schedule.outgoing.push_back({mine.subspan(at, bytes), 0, false});
    } else {
      schedule.outgoing.push_back(
          {sum.subspan(at, bytes), arrived[j][static_cast<size_t>((hop - 1) / world_size)], hop >= world_size});
    }
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
    for_each_chunk(received, chunk_bytes, [&](std::span<std::byte> bytes) { schedule.incoming.push_back({bytes, nullptr}); });
  }
  return schedule;
}

Schedule all_to_all_schedule(int rank, std::span<const std::span<const std::byte>> outgoing,
                             std::span<const std::span<std::byte>> incoming, std::vector<std::byte>& transit,
                             size_t chunk_bytes) {
  Schedule schedule;
  const int world_size = static_cast<int>(outgoing.size());
  const auto destination = [&](int step, int distance) {
    return static_cast<size_t>(modulo(rank - step + distance, world_size));
  };
  const auto for_each_received = [&](auto take) {  // in the order in which they come
    for (int step = 1; step < world_size; ++step) {
      for (int distance = world_size - 1; distance >= step; --distance) take(step, distance);
    }
  };
  size_t passed_on = 0;
  for_each_received([&](int step, int distance) {
    if (distance > step) passed_on += outgoing[destination(step, distance)].size();
  });
  transit.resize(passed_on);

  for (int distance = world_size - 1; distance >= 1; --distance) {
    for_each_chunk(outgoing[destination(0, distance)], chunk_bytes, [&](std::span<const std::byte> bytes) {
      schedule.outgoing.push_back({bytes, 0, false});
    });
  }
  size_t at = 0;
  for_each_received([&](int step, int distance) {
    const bool arrived = distance == step;
    const size_t size = outgoing[destination(step, distance)].size();
    const auto block =
        arrived ? incoming[static_cast<size_t>(modulo(rank - step, world_size))] : std::span(transit).subspan(at, size);
    if (!arrived) at += size;
    for_each_chunk(block, chunk_bytes, [&](std::span<std::byte> bytes) {
      schedule.incoming.push_back({bytes, nullptr});
      if (!arrived) schedule.outgoing.push_back({bytes, schedule.incoming.size(), true});
    });
  });
  return schedule;
}

Schedule relay_schedule(std::span<const std::span<const std::byte>> outgoing, std::span<const std::span<std::byte>> incoming,
                        size_t chunk_bytes) {
  Schedule schedule;
  std::map<const std::byte*, size_t> first_chunk_of;  // pieces that are still to come
  for (const auto piece : incoming) {
    if (piece.empty()) continue;
    first_chunk_of[piece.data()] = schedule.incoming.size();
    for_each_chunk(piece, chunk_bytes, [&](std::span<std::byte> bytes) { schedule.incoming.push_back({bytes, nullptr}); });
  }
  for (const auto piece : outgoing) {
    const auto comes = first_chunk_of.find(piece.data());
    const bool forwarded = comes != first_chunk_of.end();
    size_t after = forwarded ? comes->second : 0;
    for_each_chunk(piece, chunk_bytes, [&](std::span<const std::byte> bytes) {
      schedule.outgoing.push_back({bytes, forwarded ? ++after : 0, forwarded});
    });
  }
  return schedule;
}

Schedule broadcast_schedule(int rank, int world_size, std::span<std::byte> buffer, int root, size_t chunk_bytes) {
  Schedule schedule;
  const bool is_root = rank == root, is_last = modulo(rank + 1, world_size) == root;
  size_t index = 0;
  for_each_chunk(buffer, chunk_bytes, [&](std::span<std::byte> bytes) {
    ++index;
    if (!is_root) schedule.incoming.push_back({bytes, nullptr});
    if (!is_last) schedule.outgoing.push_back({bytes, is_root ? 0 : index, !is_root});
  });
  return schedule;
}

}  // namespace holdfast::worker
