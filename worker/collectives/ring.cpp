// The loop that moves an operation's bytes, and its error messages.
#include "worker/collectives/ring.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "worker/drills/fault_points.h"
#include "worker/invariants/invariant.h"

namespace holdfast::worker {
namespace {

using std::chrono::steady_clock;

// "61.3 of 120.6 MB", or in bytes when that says more.
std::string amount(size_t done, size_t all) {
  if (all < 1000000) return std::to_string(done) + " of " + std::to_string(all) + " bytes";
  char text[64];
  std::snprintf(text, sizeof text, "%.1f of %.1f MB", done / 1e6, all / 1e6);
  return text;
}

template <typename Chunk>
size_t total_bytes(const std::vector<Chunk>& chunks) {
  size_t total = 0;
  for (const Chunk& chunk : chunks) total += chunk.bytes.size();
  return total;
}

// In a relay each connection has bytes of its own to carry.
template <typename Chunk>
Operation sized(Operation operation, const std::vector<Chunk>& chunks) {
  if (operation.kind == Operation::Kind::kRelay) operation.bytes = total_bytes(chunks);
  return operation;
}

}  // namespace

// An operation under way.
struct Ring::Progress {
  Progress(Ring& ring, const Operation& what, const Schedule& chunks)
      : operation(what),
        schedule(chunks),
        outgoing(*ring.connections_.to_successor, ring.over(*ring.connections_.to_successor, sized(what, chunks.outgoing)),
                 chunks.outgoing),
        incoming(*ring.connections_.from_predecessor,
                 ring.over(*ring.connections_.from_predecessor, sized(what, chunks.incoming)), chunks.incoming) {}

  bool complete() const { return outgoing.complete() && incoming.complete(); }
  std::string text() const {
    return describe(operation) + "; sent " + amount(outgoing.payload_bytes(), total_bytes(schedule.outgoing)) + ", received " +
           amount(incoming.payload_bytes(), total_bytes(schedule.incoming));
  }

  // Every chunk went out once, and came in once.
  void require_all_moved() const {
    const size_t to_send = total_bytes(schedule.outgoing), to_receive = total_bytes(schedule.incoming);
    must_hold(outgoing.payload_bytes() == to_send && incoming.payload_bytes() == to_receive &&
                  incoming.chunks_done() == schedule.incoming.size(),
              [&] { return "a collective ended well before all of its bytes moved: " + text(); });
  }

  void pass_fault_point(size_t chunks_before) const {
    if (incoming.chunks_done() == chunks_before || !operation.sums()) return;
    fault_point_within(schedule.incoming[chunks_before].addend != nullptr ? "reduce_scatter" : "all_gather");
  }

  Operation operation;
  const Schedule& schedule;
  OutgoingStream outgoing;
  IncomingStream incoming;
  steady_clock::time_point last_moved = steady_clock::now();
  bool moved_since_wait = false;
  bool quiet_told = false;
};

Ring::Ring(Transport& transport, RingConnections connections, const RingOptions& options, std::span<const int> ranks,
           size_t place)
    : transport_(transport),
      connections_(std::move(connections)),
      successor_(ranks[(place + 1) % ranks.size()]),
      predecessor_(ranks[(place + ranks.size() - 1) % ranks.size()]),
      limits_{.timeout = options.timeout},
      chunk_bytes_(options.chunk_bytes),
      checksums_within_node_(options.checksums_within_node) {
  // Later than our own timeout, whose message says more.
  const auto stall_limit = limits_.timeout + std::chrono::seconds(5);
  connections_.to_successor->set_stall_limit(stall_limit);
  connections_.from_predecessor->set_stall_limit(stall_limit);
}

CollectiveResult<void> Ring::run(Operation operation, const Schedule& schedule) {
  if (poison_) return tl::make_unexpected(*poison_);
  require_sound(schedule);
  operation.number = ++operations_;
  operation.chunk_bytes = chunk_bytes_;
  Progress progress(*this, operation, schedule);
  auto result = drive(progress);
  if (result) progress.require_all_moved();
  if (!result) fail(result.error());
  return result;
}

void Ring::fail(const CollectiveError& error) {
  if (poison_) return;
  poison_ = error;
  connections_ = {};  // the neighbours notice at once
}

std::optional<CollectiveError> Ring::trouble(std::span<const int> among) {
  if (poison_) return poison_;
  if (auto error = aborted()) return error;
  const auto both = neighbours();
  for (size_t i = 0; i < both.size(); ++i) {
    const bool counts = among.empty() || std::ranges::find(among, i == 0 ? successor_ : predecessor_) != among.end();
    if (counts && transport_.lost_peer(std::span(both).subspan(i, 1))) return ended(i, "waited for others of its node");
  }
  return std::nullopt;
}

std::string Ring::encryption() const {
  if (poison_) return "";
  const std::string to = connections_.to_successor->encryption(), from = connections_.from_predecessor->encryption();
  return to == from ? to : "to the successor " + to + ", from the predecessor " + from;
}

// The operation as this connection carries it; both of its ends come to the same answer.
Operation Ring::over(const Connection& connection, Operation operation) const {
  operation.checksums = checksums_within_node_ || !operation.sums() || !connection.within_node();
  return operation;
}

void Ring::abort(const std::string& reason) {
  {
    const std::lock_guard lock(abort_mutex_);
    if (abort_requested_) return;
    abort_reason_ = reason;
    abort_requested_ = true;
  }
  transport_.wake();
}

std::optional<CollectiveError> Ring::wait_for_lost_peer(std::stop_token stop) const {
  if (poison_) return std::nullopt;
  const auto lost = transport_.wait_for_lost_peer(neighbours(), std::move(stop));
  return lost ? std::optional(ended(*lost, "computed")) : std::nullopt;
}

CollectiveError Ring::ended(size_t neighbour, const std::string& meanwhile) const {
  const int suspect = neighbour == 0 ? successor_ : predecessor_;
  return {CollectiveError::Kind::kConnectionLost, suspect,
          "rank " + std::to_string(suspect) + " (" + neighbours()[neighbour]->peer() +
              ") ended its connection while this rank " + meanwhile,
          true};
}

std::optional<CollectiveError> Ring::aborted() {
  if (!abort_requested_.load(std::memory_order_acquire)) return std::nullopt;
  const std::lock_guard lock(abort_mutex_);
  return CollectiveError{CollectiveError::Kind::kAborted, -1, "aborted: " + abort_reason_, false};
}

CollectiveResult<void> Ring::drive(Progress& progress) {
  for (;;) {
    if (auto error = aborted()) return tl::make_unexpected(std::move(*error));
    const size_t chunks_before = progress.incoming.chunks_done();
    const auto moved = move_bytes(progress);
    if (!moved) return tl::make_unexpected(moved.error());
    progress.pass_fault_point(chunks_before);
    if (progress.complete()) return {};
    if (*moved) {
      progress.moved_since_wait = true;
      continue;
    }
    if (auto waited = wait_for_bytes(progress); !waited) return waited;
  }
}

CollectiveResult<bool> Ring::move_bytes(Progress& progress) {
  const auto sent = progress.outgoing.pump(progress.incoming);
  if (!sent) return tl::make_unexpected(lost(progress, true, sent.error()));
  const auto received = progress.incoming.pump();
  if (!received) return tl::make_unexpected(lost(progress, false, received.error()));
  const size_t moved = *sent + *received;
  bytes_moved_.fetch_add(moved, std::memory_order_relaxed);
  if (also_counted_ != nullptr) also_counted_->fetch_add(moved, std::memory_order_relaxed);
  return moved > 0;
}

CollectiveResult<void> Ring::wait_for_bytes(Progress& progress) {
  if (std::exchange(progress.moved_since_wait, false)) {
    progress.last_moved = steady_clock::now();
    progress.quiet_told = false;
  }
  // While this rank has bytes left to send, the successor must be there: its end of the connection is read, though it never
  // sends anything. Afterwards it may rightly be gone: it can have finished its last operation before this rank does.
  std::array<Transport::Interest, 2> interests;
  size_t count = 0;
  if (!progress.outgoing.complete()) {
    interests[count++] = {connections_.to_successor.get(), progress.outgoing.blocked(), true};
  }
  if (!progress.incoming.complete()) interests[count++] = {connections_.from_predecessor.get(), false, true};

  const bool may_tell = limits_.on_quiet && !progress.quiet_told && limits_.quiet < limits_.timeout;
  const auto waited = transport_.wait(std::span(interests).first(count), false,
                                      progress.last_moved + (may_tell ? limits_.quiet : limits_.timeout));
  if (waited) return watch_successor(progress);
  switch (waited.error().kind) {
    case TransportError::Kind::kWoken:
      return {};  // for this communicator or an earlier one: the loop looks
    case TransportError::Kind::kTimeout:
      if (!may_tell) return tl::make_unexpected(stalled(progress, limits_.timeout));
      progress.quiet_told = true;
      limits_.on_quiet(stalled(progress, limits_.quiet));
      return {};
    default:
      return tl::make_unexpected(lost(progress, true, waited.error()));
  }
}

CollectiveResult<void> Ring::watch_successor(Progress& progress) {
  if (progress.outgoing.complete()) return {};
  std::array<std::byte, 1> nothing;
  const auto heard = connections_.to_successor->receive_some(nothing);
  if (!heard) return tl::make_unexpected(lost(progress, true, heard.error()));
  if (*heard == 0) return {};
  return tl::make_unexpected(
      lost(progress, true, {TransportError::Kind::kFailed, "it sent something on a connection that only this rank sends on"}));
}

CollectiveError Ring::lost(const Progress& progress, bool outgoing, const TransportError& error) const {
  const int suspect = outgoing ? successor_ : predecessor_;
  const Connection& connection = outgoing ? *connections_.to_successor : *connections_.from_predecessor;
  return {CollectiveError::Kind::kConnectionLost, suspect,
          "connection " + std::string(outgoing ? "to" : "from") + " rank " + std::to_string(suspect) + " (" +
              connection.peer() + "): " + error.detail + " (" + progress.text() + ")",
          error.kind == TransportError::Kind::kClosed};
}

CollectiveError Ring::stalled(const Progress& progress, std::chrono::milliseconds for_so_long) const {
  // A rank that works always empties its incoming stream, whatever it waits for itself. So a rank that takes nothing is the
  // better suspect than a rank that has nothing to send, which may be waiting for the first one in turn.
  const bool sending = progress.outgoing.blocked();
  const int suspect = sending ? successor_ : predecessor_;
  const std::string what = sending ? "rank " + std::to_string(suspect) + " takes no more bytes"
                                   : "nothing comes from rank " + std::to_string(suspect);
  return {CollectiveError::Kind::kTimeout, suspect,
          "no bytes moved for " + std::to_string(for_so_long.count()) + " ms: " + what + " (" + progress.text() + ")", false};
}

}  // namespace holdfast::worker
