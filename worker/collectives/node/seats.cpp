// Counters in the memory, and waiting for them.
#include "worker/collectives/node/seats.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <ctime>
#include <new>
#include <string>
#include <utility>

namespace holdfast::worker {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

// A waiting seat looks this often whether the ring still holds, and this often whether a device is done.
constexpr milliseconds kLook{5};
constexpr microseconds kLookAtDevice{50};
constexpr size_t kCounterLine = 64;  // the processors' caches

static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free,
              "counters are seen by several processes");

void sleep_on(std::atomic<uint32_t>& word, uint32_t seen, microseconds at_most) {
  const timespec limit{0, std::chrono::nanoseconds(at_most).count()};
  syscall(SYS_futex, &word, FUTEX_WAIT, seen, &limit, nullptr, 0);
}
void wake_all(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace

// The beginning of the memory, for all seats. A count is of pieces since the memory was made.
struct Seats::Common {
  alignas(SharedMemory::kProofBytes) std::array<std::byte, SharedMemory::kProofBytes> proof;
  alignas(kCounterLine) std::atomic<uint32_t> changes;  // grows with whatever else changes: waited on
  std::atomic<uint32_t> sleepers;
  std::atomic<uint32_t> failed;                         // 1 + the rank that gave up first; 0: none
  alignas(kCounterLine) std::atomic<uint64_t> carried;  // pieces whose total is there
  std::atomic<uint64_t> bytes_between;
  std::atomic<uint64_t> devices_from;  // a call
  std::atomic<uint32_t> has_device_id;
  DeviceId device_id;
};

struct Seats::Seat {
  alignas(kCounterLine) std::atomic<uint64_t> filled, added;
  std::atomic<Devices> devices;
  std::array<About, 2> about;  // its call, the last one and the one before
};

struct Seats::Wait {
  steady_clock::time_point looked = steady_clock::now(), last_moved = looked;
  uint64_t moved;  // progress() when it grew last
  bool quiet_told = false;
};

size_t Seats::memory_bytes(size_t seats) {
  return sizeof(Common) + seats * sizeof(Seat);
}

Seats::Seats(std::span<std::byte> memory, std::vector<int> ranks, size_t seat, Ring& ring)
    : memory_(memory), ranks_(std::move(ranks)), seat_(seat), ring_(ring) {}

// All of these begin as zeros, which is what they are to begin as.
Seats::Common& Seats::common() const {
  return *std::launder(reinterpret_cast<Common*>(memory_.data()));
}
Seats::Seat& Seats::seat(size_t number) const {
  return *std::launder(reinterpret_cast<Seat*>(memory_.data() + sizeof(Common) + number * sizeof(Seat)));
}

std::atomic<uint64_t>& Seats::bytes_between() {
  return common().bytes_between;
}

void Seats::announce() {
  common().changes.fetch_add(1);
  if (common().sleepers.load() > 0) wake_all(common().changes);
}
void Seats::wake() {
  woken_ = true;
  announce();
}

CollectiveResult<uint64_t> Seats::begin_call(size_t bytes, Element element, uint64_t pieces) {
  ++calls_;
  pieces_ += pieces;
  if (auto trouble = ring_.trouble()) return tl::make_unexpected(std::move(*trouble));
  if (seat_ == 0 && common().devices_from.load() == 0 && devices() == Devices::kConnected)
    common().devices_from.store(calls_ + 1);
  seat(seat_).about[calls_ % 2] = {calls_, bytes, static_cast<uint64_t>(element)};
  return pieces_ - pieces;
}

void Seats::give_up(const CollectiveError& error) {
  uint32_t none = 0;
  common().failed.compare_exchange_strong(none, static_cast<uint32_t>(ranks_[seat_]) + 1);
  announce();
  ring_.fail(error);
}

void Seats::set_filled(uint64_t end) {
  seat(seat_).filled.store(end);
  announce();
}
void Seats::set_added(uint64_t end) {
  seat(seat_).added.store(end);
  announce();
}
void Seats::set_carried(uint64_t end) {
  common().carried.store(end);
  announce();
}

void Seats::publish_device_id(const DeviceId& id) {
  common().device_id = id;
  common().has_device_id.store(1);
}
std::optional<Seats::DeviceId> Seats::device_id() const {
  return common().has_device_id.load() == 0 ? std::nullopt : std::optional(common().device_id);
}
void Seats::set_devices(Devices state) {
  seat(seat_).devices.store(state);
}
Seats::Devices Seats::devices() const {
  bool all = true;
  for (size_t number = 0; number < ranks_.size(); ++number) {
    const Devices state = seat(number).devices.load();
    if (state == Devices::kNot) return state;
    all &= state == Devices::kConnected;
  }
  return all ? Devices::kConnected : Devices::kNotYet;
}
uint64_t Seats::devices_from() const {
  return common().devices_from.load();
}

CollectiveResult<void> Seats::require_same_call() const {
  const About& own = seat(seat_).about[calls_ % 2];
  for (size_t other = 0; other < ranks_.size(); ++other) {
    const About& theirs = seat(other).about[calls_ % 2];
    if (theirs == own) continue;
    const auto text = [](const About& about) {
      return describe({.kind = Operation::Kind::kAllReduce,
                       .element = static_cast<Element>(about.element),
                       .number = about.number,
                       .bytes = about.bytes});
    };
    return tl::make_unexpected(CollectiveError{CollectiveError::Kind::kConnectionLost, ranks_[other],
                                               "rank " + std::to_string(ranks_[other]) + ", on this node, is at " +
                                                   text(theirs) + ", while this rank is at " + text(own) +
                                                   "; all ranks must call the same collectives in the same order",
                                               false});
  }
  return {};
}

CollectiveResult<void> Seats::await_seats(std::atomic<uint64_t> Seat::*counter, uint64_t end, const char* what) {
  return await(
      [&]() -> std::optional<size_t> {
        for (size_t other = 0; other < ranks_.size(); ++other) {
          if ((seat(other).*counter).load() < end) return other;
        }
        return std::nullopt;
      },
      what, {}, kLook);
}

CollectiveResult<void> Seats::await_filled(uint64_t end) {
  return await_seats(&Seat::filled, end, "bring");
}
CollectiveResult<void> Seats::await_added(uint64_t end) {
  return await_seats(&Seat::added, end, "add up");
}
CollectiveResult<void> Seats::await_carried(uint64_t end) {
  const auto late = [&] { return common().carried.load() >= end ? std::nullopt : std::optional<size_t>(0); };
  // A neighbour on another node may have its sum already and be gone; of one that failed the leader hears.
  return await(late, "bring the sum over all nodes", ranks_, kLook);
}

// The suspect, should it last too long, is another seat that is not through with what it began.
CollectiveResult<void> Seats::await_done(const std::function<bool()>& is_done, const char* what) {
  const auto late = [&]() -> std::optional<size_t> {
    if (is_done()) return std::nullopt;
    for (size_t other = 0; other < ranks_.size(); ++other) {
      if (other != seat_ && seat(other).added.load() < pieces_) return other;
    }
    return seat_ == 0 ? 1 : 0;
  };
  return await(late, what, ranks_, kLookAtDevice);
}

CollectiveResult<void> Seats::await(const LateSeat& late_seat, const char* what, std::span<const int> among,
                                    microseconds look) {
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
    sleep_on(common().changes, seen, look);
    common().sleepers.fetch_sub(1);
  }
}

CollectiveResult<void> Seats::judge(Wait& wait, int rank, const char* what) const {
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

uint64_t Seats::progress() const {
  uint64_t all = common().carried.load() + common().bytes_between.load();
  for (size_t other = 0; other < ranks_.size(); ++other) all += seat(other).filled.load() + seat(other).added.load();
  return all;
}

}  // namespace holdfast::worker
