// The steps of a piece, and waiting for each other through counters in the memory.
#include "worker/collectives/node_sums.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <climits>
#include <cstring>
#include <ctime>
#include <exception>
#include <new>
#include <string>
#include <utility>

#include "worker/collectives/reduce.h"
#include "worker/drills/fault_points.h"

namespace holdfast::worker {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// A waiting seat looks this often whether the ring still holds.
constexpr milliseconds kLook{5};
constexpr size_t kLine = 64;                 // of the processors' caches; shares of a piece begin at one
constexpr size_t kBlock = size_t{64} << 10;  // is added up while it is in the cache

static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free,
              "counters are seen by several processes");

void sleep_on(std::atomic<uint32_t>& word, uint32_t seen, milliseconds at_most) {
  const timespec limit{0, std::chrono::nanoseconds(at_most).count()};
  syscall(SYS_futex, &word, FUTEX_WAIT, seen, &limit, nullptr, 0);
}
void wake_all(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

size_t round_up(size_t bytes, size_t to) {
  return (bytes + to - 1) / to * to;
}

}  // namespace

// The beginning of the memory, for all seats. A count is of pieces since the memory was made.
struct NodeSums::Common {
  alignas(SharedMemory::kProofBytes) std::array<std::byte, SharedMemory::kProofBytes> proof;
  alignas(kLine) std::atomic<uint32_t> changes;  // grows with whatever else changes: waited on
  std::atomic<uint32_t> sleepers;
  std::atomic<uint32_t> failed;                  // 1 + the rank that gave up first; 0: none
  alignas(kLine) std::atomic<uint64_t> carried;  // pieces whose total is there
  std::atomic<uint64_t> bytes_between;
};

struct NodeSums::Seat {
  struct About {
    uint64_t number, bytes, element;
    bool operator==(const About&) const = default;
  };
  alignas(kLine) std::atomic<uint64_t> filled, added;
  std::array<About, 2> about;  // its call, the last one and the one before
};

struct NodeSums::Call {
  std::span<const std::byte> mine;
  std::span<std::byte> sum;
  Element element;
  const Carry& carry;
  Seat::About about;
  uint64_t first;  // piece
  size_t piece_bytes;

  uint64_t pieces() const { return std::max<uint64_t>(1, (mine.size() + piece_bytes - 1) / piece_bytes); }
  size_t begin(uint64_t piece) const { return static_cast<size_t>(piece - first) * piece_bytes; }
  size_t length(uint64_t piece) const { return std::min(piece_bytes, mine.size() - begin(piece)); }
};

struct NodeSums::Wait {
  steady_clock::time_point looked = steady_clock::now(), last_moved = looked;
  uint64_t moved;  // progress() when it grew last
  bool quiet_told = false;
};

size_t NodeSums::memory_bytes(size_t seats, size_t piece_bytes, bool carried) {
  return round_up(sizeof(Common) + seats * sizeof(Seat), 4096) + (2 * seats + (carried ? 4 : 2)) * piece_bytes;
}

NodeSums::NodeSums(std::span<std::byte> memory, std::vector<int> ranks, size_t seat, size_t piece_bytes, bool carried,
                   Ring& ring)
    : memory_(memory), ranks_(std::move(ranks)), seat_(seat), piece_bytes_(piece_bytes), carried_(carried), ring_(ring) {}

// All of these begin as zeros, which is what they are to begin as.
NodeSums::Common& NodeSums::common() const {
  return *std::launder(reinterpret_cast<Common*>(memory_.data()));
}
NodeSums::Seat& NodeSums::seat(size_t number) const {
  return *std::launder(reinterpret_cast<Seat*>(memory_.data() + sizeof(Common) + number * sizeof(Seat)));
}

std::span<std::byte> NodeSums::slot(size_t number, uint64_t piece) const {
  const size_t counters = round_up(sizeof(Common) + ranks_.size() * sizeof(Seat), 4096);
  return memory_.subspan(counters + (2 * number + piece % 2) * piece_bytes_, piece_bytes_);
}
std::span<std::byte> NodeSums::sum_of(uint64_t piece) const {
  return slot(ranks_.size(), piece);
}
std::span<std::byte> NodeSums::total_of(uint64_t piece) const {
  return slot(ranks_.size() + (carried_ ? 1 : 0), piece);
}

std::atomic<uint64_t>& NodeSums::bytes_between() {
  return common().bytes_between;
}

void NodeSums::announce() {
  common().changes.fetch_add(1);
  if (common().sleepers.load() > 0) wake_all(common().changes);
}
void NodeSums::wake() {
  woken_ = true;
  announce();
}

CollectiveResult<void> NodeSums::run(std::span<const std::byte> mine, std::span<std::byte> sum, Element element,
                                     const Carry& carry) {
  const Call call{mine, sum, element, carry, {++calls_, mine.size(), static_cast<uint64_t>(element)}, pieces_, piece_bytes_};
  pieces_ += call.pieces();
  try {
    auto trouble = ring_.trouble();
    auto done = trouble ? CollectiveResult<void>(tl::make_unexpected(std::move(*trouble))) : all_pieces(call);
    if (!done) give_up(done.error());
    return done;
  } catch (const std::exception& error) {  // no memory, for one: the others must not wait for this rank
    give_up({CollectiveError::Kind::kAborted, -1, std::string("an all-reduce failed here: ") + error.what(), false});
    throw;
  }
}

void NodeSums::give_up(const CollectiveError& error) {
  uint32_t none = 0;
  common().failed.compare_exchange_strong(none, static_cast<uint32_t>(ranks_[seat_]) + 1);
  announce();
  ring_.fail(error);
}

// The leader has a piece's total as soon as it has carried it. The others take it only after they added their share of the next
// one, so that the leader finds that done when it is back.
CollectiveResult<void> NodeSums::all_pieces(const Call& call) {
  const bool leads = carried_ && seat_ == 0;
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
CollectiveResult<void> NodeSums::fill(const Call& call, uint64_t piece) {
  if (piece >= 2) {
    if (auto waited = await_seats(&Seat::added, piece - 1, "add up"); !waited) return waited;
  }
  if (piece == call.first) seat(seat_).about[call.about.number % 2] = call.about;
  std::ranges::copy(call.mine.subspan(call.begin(piece), call.length(piece)), slot(seat_, piece).begin());
  seat(seat_).filled.store(piece + 1);
  announce();
  return {};
}

// A seat that has filled this piece has taken the one two before it, so its sum can be written over.
CollectiveResult<void> NodeSums::add_share(const Call& call, uint64_t piece) {
  if (auto waited = await_seats(&Seat::filled, piece + 1, "bring"); !waited) return waited;
  if (piece == call.first) {
    if (auto same = require_same_call(call); !same) return same;
  }
  const size_t share = round_up(call.length(piece) / ranks_.size() + 1, kLine);
  const size_t begin = std::min(seat_ * share, call.length(piece)), end = std::min(begin + share, call.length(piece));
  for (size_t at = begin; at < end; at += kBlock) {
    const size_t bytes = std::min(kBlock, end - at);
    const auto sum = sum_of(piece).subspan(at, bytes);
    std::ranges::copy(slot(0, piece).subspan(at, bytes), sum.begin());
    for (size_t other = 1; other < ranks_.size(); ++other)
      add_elements(sum, slot(other, piece).subspan(at, bytes), call.element);
  }
  seat(seat_).added.store(piece + 1);
  announce();
  fault_point_within("reduce_scatter");
  return {};
}

CollectiveResult<void> NodeSums::carry_on(const Call& call, uint64_t piece) {
  if (auto waited = await_seats(&Seat::added, piece + 1, "add up"); !waited) return waited;
  auto carried = call.carry(sum_of(piece).first(call.length(piece)), total_of(piece).first(call.length(piece)));
  if (!carried) return carried;
  common().carried.store(piece + 1);
  announce();
  return {};
}

CollectiveResult<void> NodeSums::take(const Call& call, uint64_t piece) {
  if (carried_) {
    const auto late = [&] { return common().carried.load() > piece ? std::nullopt : std::optional<size_t>(0); };
    // A neighbour on another node may have its sum already and be gone; of one that failed the leader hears.
    if (auto waited = await(late, "bring the sum over all nodes", ranks_); !waited) return waited;
  } else {
    if (auto waited = await_seats(&Seat::added, piece + 1, "add up"); !waited) return waited;
  }
  std::ranges::copy(total_of(piece).first(call.length(piece)), call.sum.subspan(call.begin(piece)).begin());
  fault_point_within("all_gather");
  return {};
}

CollectiveResult<void> NodeSums::require_same_call(const Call& call) const {
  for (size_t other = 0; other < ranks_.size(); ++other) {
    const Seat::About& theirs = seat(other).about[call.about.number % 2];
    if (theirs == call.about) continue;
    const auto text = [](const Seat::About& about) {
      return describe({.kind = Operation::Kind::kAllReduce,
                       .element = static_cast<Element>(about.element),
                       .number = about.number,
                       .bytes = about.bytes});
    };
    return tl::make_unexpected(CollectiveError{CollectiveError::Kind::kConnectionLost, ranks_[other],
                                               "rank " + std::to_string(ranks_[other]) + ", on this node, is at " +
                                                   text(theirs) + ", while this rank is at " + text(call.about) +
                                                   "; all ranks must call the same collectives in the same order",
                                               false});
  }
  return {};
}

CollectiveResult<void> NodeSums::await_seats(std::atomic<uint64_t> Seat::*counter, uint64_t target, const char* what) {
  return await(
      [&]() -> std::optional<size_t> {
        for (size_t other = 0; other < ranks_.size(); ++other) {
          if ((seat(other).*counter).load() < target) return other;
        }
        return std::nullopt;
      },
      what, {});
}

CollectiveResult<void> NodeSums::await(const LateSeat& late_seat, const char* what, std::span<const int> among) {
  Wait wait{.moved = progress()};
  for (;;) {
    const uint32_t seen = common().changes.load();
    const auto late = late_seat();
    if (!late) return {};
    if (const uint32_t failed = common().failed.load(); failed != 0) {
      const int suspect = static_cast<int>(failed) - 1;
      return tl::make_unexpected(CollectiveError{CollectiveError::Kind::kConnectionLost, suspect,
                                                 "rank " + std::to_string(suspect) + ", on this node, gave up the all-reduce",
                                                 true});
    }
    const auto now = steady_clock::now();
    if (woken_.exchange(false) || now - wait.looked >= kLook) {
      wait.looked = now;
      if (auto trouble = ring_.trouble(among)) {
        if (!late_seat()) return {};  // a rank may end once all is there
        return tl::make_unexpected(std::move(*trouble));
      }
      if (auto patient = judge(wait, ranks_[*late], what); !patient) return patient;
    }
    common().sleepers.fetch_add(1);
    sleep_on(common().changes, seen, kLook);
    common().sleepers.fetch_sub(1);
  }
}

CollectiveResult<void> NodeSums::judge(Wait& wait, int rank, const char* what) const {
  if (const uint64_t present = progress(); present != wait.moved)
    wait = {.looked = wait.looked, .last_moved = wait.looked, .moved = present};
  const WaitLimits& limits = ring_.limits();
  const auto stalled = [&](milliseconds for_so_long) {
    return CollectiveError{CollectiveError::Kind::kTimeout, rank,
                           "no bytes moved for " + std::to_string(for_so_long.count()) + " ms: rank " + std::to_string(rank) +
                               ", on this node, has not come to " + what + " its part of an all-reduce",
                           false};
  };
  const auto silent = wait.looked - wait.last_moved;
  if (silent >= limits.timeout) return tl::make_unexpected(stalled(limits.timeout));
  if (limits.on_quiet && !wait.quiet_told && limits.quiet < limits.timeout && silent >= limits.quiet) {
    wait.quiet_told = true;
    limits.on_quiet(stalled(limits.quiet));
  }
  return {};
}

uint64_t NodeSums::progress() const {
  uint64_t all = common().carried.load() + common().bytes_between.load();
  for (size_t other = 0; other < ranks_.size(); ++other) all += seat(other).filled.load() + seat(other).added.load();
  return all;
}

}  // namespace holdfast::worker
