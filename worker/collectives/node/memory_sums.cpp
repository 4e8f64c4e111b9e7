// The steps of a piece.
#include "worker/collectives/node/memory_sums.h"

#include <algorithm>

#include "worker/collectives/node/giving_up.h"
#include "worker/collectives/reduce.h"
#include "worker/drills/fault_points.h"

namespace holdfast::worker {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kLine = 64;                 // of the processors' caches; shares of a piece begin at one
constexpr size_t kBlock = size_t{64} << 10;  // is added up while it is in the cache

size_t round_up(size_t bytes, size_t to) {
  return (bytes + to - 1) / to * to;
}

}  // namespace

struct MemorySums::Call {
  std::span<const std::byte> mine;
  std::span<std::byte> sum;
  Element element;
  const Carry& carry;
  size_t piece_bytes;
  uint64_t first = 0;  // piece

  uint64_t pieces() const { return std::max<uint64_t>(1, (mine.size() + piece_bytes - 1) / piece_bytes); }
  size_t begin(uint64_t piece) const { return static_cast<size_t>(piece - first) * piece_bytes; }
  size_t length(uint64_t piece) const { return std::min(piece_bytes, mine.size() - begin(piece)); }
};

size_t MemorySums::memory_bytes(size_t seats, size_t piece_bytes, bool carried) {
  return round_up(Seats::memory_bytes(seats), kPage) + (2 * seats + (carried ? 4 : 2)) * piece_bytes;
}

MemorySums::MemorySums(std::span<std::byte> memory, Seats& seats, size_t piece_bytes, bool carried)
    : memory_(memory), seats_(seats), piece_bytes_(piece_bytes), carried_(carried) {}

std::span<std::byte> MemorySums::slot(size_t number, uint64_t piece) const {
  const size_t counters = round_up(Seats::memory_bytes(seats_.count()), kPage);
  return memory_.subspan(counters + (2 * number + piece % 2) * piece_bytes_, piece_bytes_);
}
std::span<std::byte> MemorySums::sum_of(uint64_t piece) const {
  return slot(seats_.count(), piece);
}
std::span<std::byte> MemorySums::total_of(uint64_t piece) const {
  return slot(seats_.count() + (carried_ ? 1 : 0), piece);
}

CollectiveResult<void> MemorySums::run(std::span<const std::byte> mine, std::span<std::byte> sum, Element element,
                                       const Carry& carry) {
  return giving_up_in(seats_, [&]() -> CollectiveResult<void> {
    Call call{.mine = mine, .sum = sum, .element = element, .carry = carry, .piece_bytes = piece_bytes_};
    const auto first = seats_.begin_call(mine.size(), element, call.pieces());
    if (!first) return tl::make_unexpected(first.error());
    call.first = *first;
    return all_pieces(call);
  });
}

// The leader has a piece's total as soon as it has carried it. The others take it only after they added their share of the next
// one, so that the leader finds that done when it is back.
CollectiveResult<void> MemorySums::all_pieces(const Call& call) {
  const bool leads = carried_ && seats_.own() == 0;
  const uint64_t end = call.first + call.pieces();
  for (uint64_t piece = call.first; piece < end; ++piece) {
    if (auto done = fill(call, piece); !done) return done;
    if (auto done = add_share(call, piece); !done) return done;
    if (leads) {
      if (auto done = carry_on(call, piece); !done) return done;
      if (auto done = take(call, piece); !done) return done;
    } else if (piece > call.first) {
      if (auto done = take(call, piece - 1); !done) return done;
    }
  }
  return leads ? CollectiveResult<void>{} : take(call, end - 1);
}

// A slot is free when all have added up what was in it two pieces ago.
CollectiveResult<void> MemorySums::fill(const Call& call, uint64_t piece) {
  if (piece >= 2) {
    if (auto waited = seats_.await_added(piece - 1); !waited) return waited;
  }
  std::ranges::copy(call.mine.subspan(call.begin(piece), call.length(piece)), slot(seats_.own(), piece).begin());
  seats_.set_filled(piece + 1);
  return {};
}

// A seat that has filled this piece has taken the one two before it, so its sum can be written over.
CollectiveResult<void> MemorySums::add_share(const Call& call, uint64_t piece) {
  if (auto waited = seats_.await_filled(piece + 1); !waited) return waited;
  if (piece == call.first) {
    if (auto same = seats_.require_same_call(); !same) return same;
  }
  const size_t share = round_up(call.length(piece) / seats_.count() + 1, kLine);
  const size_t begin = std::min(seats_.own() * share, call.length(piece)), end = std::min(begin + share, call.length(piece));
  for (size_t at = begin; at < end; at += kBlock) {
    const size_t bytes = std::min(kBlock, end - at);
    const auto sum = sum_of(piece).subspan(at, bytes);
    std::ranges::copy(slot(0, piece).subspan(at, bytes), sum.begin());
    for (size_t other = 1; other < seats_.count(); ++other)
      add_elements(sum, slot(other, piece).subspan(at, bytes), call.element);
  }
  seats_.set_added(piece + 1);
  fault_point_within("reduce_scatter");
  return {};
}

CollectiveResult<void> MemorySums::carry_on(const Call& call, uint64_t piece) {
  if (auto waited = seats_.await_added(piece + 1); !waited) return waited;
  auto carried = call.carry(sum_of(piece).first(call.length(piece)), total_of(piece).first(call.length(piece)));
  if (!carried) return carried;
  seats_.set_carried(piece + 1);
  return {};
}

CollectiveResult<void> MemorySums::take(const Call& call, uint64_t piece) {
  if (auto waited = carried_ ? seats_.await_carried(piece + 1) : seats_.await_added(piece + 1); !waited) return waited;
  std::ranges::copy(total_of(piece).first(call.length(piece)), call.sum.subspan(call.begin(piece)).begin());
  fault_point_within("all_gather");
  return {};
}

}  // namespace holdfast::worker
