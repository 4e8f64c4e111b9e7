#include "tests/sim/training/ring.h"

#include <algorithm>
#include <utility>

#include "tests/sim/process.h"

namespace holdfast::sim {
namespace {

constexpr int64_t kBreakMs = 6;        // until a neighbour sees a closed connection
constexpr int64_t kPassMs = 12;        // until a rank has all of a collective
constexpr int64_t kFormMs = 1400;      // for handshakes; RingOptions::form_timeout, kept short
constexpr int64_t kPatienceMs = 9000;  // of every collective, those that wait for a checkpoint or a copy too

}  // namespace

Ring::Ring(Timeline& time, Chance& chance, const Apart& apart, const rendezvous::Directive& join)
    : time_(time), chance_(chance), apart_(apart), members_(join.members), seats_(join.members.size()) {}

void Ring::gather(int rank, Process& process, Piece piece, int64_t timeout_ms, std::function<void(const Gathered&)> done) {
  Seat& seat = seats_[static_cast<size_t>(rank)];
  seat.process = &process;
  seat.watching = nullptr;
  const int64_t round = ++seat.round;
  seat.waiting = std::move(done);
  if (seat.broken) return process.later(0, [this, rank, round] { fail(rank, round, *seats_[rank].broken); });
  Round& gathering = rounds_[round];
  gathering.pieces.resize(seats_.size());
  gathering.pieces[static_cast<size_t>(rank)] = std::move(piece);
  const int before = (rank + size() - 1) % size();
  if (timeout_ms >= 0 && size() > 1)
    process.later(timeout_ms, [this, rank, round, before] { fail(rank, round, {"timeout", before}); });
  if (round == 1) fail_to_form(rank, process);
  if (++gathering.entered < size()) {
    // A neighbour that has gone for good does not answer; the service knows before the patience ends, mostly.
    for (int other = 0; round == 1 && other < size(); ++other) {
      if (seats_[static_cast<size_t>(other)].left && chance_.percent(50))
        process.later(chance_.between(1, 50), [this, rank, round, other] { fail(rank, round, {"handshake_failed", other}); });
    }
    return;
  }
  gathering.all = std::make_shared<const std::vector<Piece>>(std::move(gathering.pieces));
  for (int r = 0; r < size(); ++r) time_.after(chance_.between(1, kPassMs), [this, r, round] { deliver(r, round); });
}

void Ring::deliver(int rank, int64_t round) {
  Seat& seat = seats_[static_cast<size_t>(rank)];
  if (seat.round != round || !seat.waiting) return;
  const bool torn_apart = torn();
  if (torn_apart) {
    const int before = (rank + size() - 1) % size();
    seat.process->later(kPatienceMs, [this, rank, round, before] { fail(rank, round, {"timeout", before}); });
  }
  if (torn_apart || (hindered() && !chance_.percent(30))) {
    seat.stuck = true;
    return;
  }
  seat.process->run([this, rank, round] {
    Seat& here = seats_[static_cast<size_t>(rank)];
    if (here.round != round || !here.waiting || here.left) return;
    here.finished = round;
    const Pieces all = rounds_.at(round).all;
    std::exchange(here.waiting, nullptr)(all);
  });
}

void Ring::fail(int rank, int64_t round, const RingError& error) {
  Seat& seat = seats_[static_cast<size_t>(rank)];
  if (seat.round != round || !seat.waiting || seat.left) return;
  if (!seat.broken) seat.broken = std::make_unique<RingError>(error);
  std::exchange(seat.waiting, nullptr)(tl::unexpected(error));
}

void Ring::watch(int rank, std::function<void(const RingError&)> on_lost_peer) {
  Seat& seat = seats_[static_cast<size_t>(rank)];
  seat.watching = std::move(on_lost_peer);
  if (seat.broken) std::exchange(seat.watching, nullptr)(*seat.broken);
}

void Ring::leave(int rank, bool abrupt) {
  Seat& seat = seats_[static_cast<size_t>(rank)];
  if (seat.left) return;
  seat.left = true;
  seat.killed = abrupt;
  seat.waiting = nullptr;
  seat.watching = nullptr;
  const int next = (rank + 1) % size(), before = (rank + size() - 1) % size();
  for (const int neighbour : {next, before}) {
    if (neighbour == rank) continue;
    time_.after(chance_.below(kBreakMs),
                [this, neighbour, rank, finished = seat.finished, abrupt] { break_seat(neighbour, rank, finished, abrupt); });
  }
}

void Ring::break_seat(int rank, int by, int64_t by_finished, bool abrupt) {
  Seat& seat = seats_[static_cast<size_t>(rank)];
  if (seat.process == nullptr || seat.left || seat.broken) return;
  seat.process->run([this, rank, by, by_finished, abrupt] {
    Seat& here = seats_[static_cast<size_t>(rank)];
    if (here.left || here.broken) return;
    here.broken = std::make_unique<RingError>(RingError{"connection_lost", by});
    if (here.watching) std::exchange(here.watching, nullptr)(*here.broken);
    // A rank that has completed a collective has sent all that the others need for it; a kill may lose the kernel's buffers.
    const bool on_the_way = by_finished >= here.round && !(abrupt && chance_.percent(50));
    if (here.waiting && !on_the_way) fail(rank, here.round, *here.broken);
  });
}

std::vector<int> Ring::gone(int rank) const {
  std::vector<int> found;
  for (int other = 0; other < size(); ++other) {
    if (other != rank && seats_[static_cast<size_t>(other)].killed) found.push_back(other);
  }
  return found;
}

bool Ring::hindered() const {
  return seats_.size() > 1 && std::ranges::any_of(seats_, [](const Seat& seat) {
           return seat.process != nullptr && !seat.left && (seat.process->frozen() || seat.process->cut_from_peers());
         });
}

bool Ring::are_apart(int rank, int neighbour) const {
  const std::string &a = members_[static_cast<size_t>(rank)].worker, &b = members_[static_cast<size_t>(neighbour)].worker;
  return apart_.contains(std::minmax(a, b));
}

int Ring::apart_from(int rank) const {
  const int next = (rank + 1) % size(), before = (rank + size() - 1) % size();
  return are_apart(rank, next) ? next : are_apart(rank, before) ? before : -1;
}

bool Ring::torn() const {
  for (int rank = 0; rank < size(); ++rank) {
    if (apart_from(rank) >= 0) return true;
  }
  return false;
}

void Ring::fail_to_form(int rank, Process& process) {
  if (apart_from(rank) < 0) return;
  process.later(kFormMs, [this, rank] {
    if (const int other = apart_from(rank); other >= 0) fail(rank, 1, {"handshake_failed", other});
  });
}

void Ring::poke() {
  for (int rank = 0; rank < size(); ++rank) {
    Seat& seat = seats_[static_cast<size_t>(rank)];
    if (!std::exchange(seat.stuck, false)) continue;
    time_.after(chance_.between(1, kPassMs), [this, rank, round = seat.round] { deliver(rank, round); });
  }
}

Ring& Rings::of(const rendezvous::Directive& join) {
  auto& ring = rings_[{join.job, join.generation, join.secret}];
  if (!ring) ring = std::make_unique<Ring>(time_, chance_, apart_, join);
  return *ring;
}

void Rings::set_apart(const std::string& a, const std::string& b, bool apart) {
  if (apart) {
    apart_.insert(std::minmax(a, b));
  } else {
    apart_.erase(std::minmax(a, b));
  }
}

void Rings::poke() {
  for (auto& [_, ring] : rings_) ring->poke();
}

}  // namespace holdfast::sim
