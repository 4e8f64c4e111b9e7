// The rings between workers: collectives that all members must enter, connections that break, bytes that stop moving.
//
// A collective is complete when every rank has entered it; each rank learns that at a moment of its own, and what happens
// in between decides who does: so a fault may find some ranks a step ahead. A ring is known by (job, generation, secret):
// members with different secrets never meet, as in worker/collectives/handshake.h.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tl/expected.hpp>
#include <tuple>
#include <utility>
#include <vector>

#include "rendezvous/protocol/messages.h"
#include "tests/sim/chance.h"
#include "tests/sim/training/divided_memory.h"
#include "tests/sim/training/model_state.h"
#include "worker/step/exchange.h"
#include "worker/step/shares.h"

namespace holdfast::sim {

class Process;
class Timeline;

// A rank's part of a collective; each kind of collective uses its own part.
struct Piece {
  int64_t held_step = -1;
  std::string hash;
  std::vector<rendezvous::StepPoint> unconfirmed;
  std::shared_ptr<const ModelState> state;
  std::string failure;  // of rank 0's reading
  worker::Microbatches kept;
  worker::StepReport report;
  uint64_t gradient = 0;
  int64_t refused_in_row = 0;
  // of a divided state
  std::shared_ptr<const DividedMemory> memory;
  worker::Held held;
  int64_t applied_step = -1, summed_step = -1;
  bool goes = false;
  bool can_write = false;  // its part of a checkpoint
};
struct RingError {
  std::string kind;  // connection_lost | timeout | handshake_failed
  int suspect_rank = -1;
};
using Pieces = std::shared_ptr<const std::vector<Piece>>;
using Gathered = tl::expected<Pieces, RingError>;

// Pairs of workers between which nothing passes, though both are well and reach everybody else.
using Apart = std::set<std::pair<std::string, std::string>>;

class Ring {
 public:
  Ring(Timeline& time, Chance& chance, const Apart& apart, const rendezvous::Directive& join);

  // Rank's next collective. The first one forms the ring. timeout_ms < 0: none, signs of life pass meanwhile.
  void gather(int rank, Process& process, Piece piece, int64_t timeout_ms, std::function<void(const Gathered&)> done);
  // While this rank computes: called once when a neighbour goes away.
  void watch(int rank, std::function<void(const RingError&)> on_lost_peer);
  // This rank's connections close. `abrupt`: what is on the way may be lost.
  void leave(int rank, bool abrupt);
  // Bytes may move again.
  void poke();

  // The other ranks whose processes were killed: their addresses refuse connections.
  std::vector<int> gone(int rank) const;
  int size() const { return static_cast<int>(seats_.size()); }
  const std::vector<rendezvous::Member>& members() const { return members_; }

 private:
  struct Seat {
    Process* process = nullptr;
    bool left = false, killed = false;
    int64_t round = 0, finished = 0;               // rounds entered and completed
    std::function<void(const Gathered&)> waiting;  // for `round`
    std::function<void(const RingError&)> watching;
    std::unique_ptr<RingError> broken;
    bool stuck = false;
  };
  struct Round {
    std::vector<Piece> pieces;
    int entered = 0;
    Pieces all;
  };
  void deliver(int rank, int64_t round);
  void fail(int rank, int64_t round, const RingError& error);
  void break_seat(int rank, int by, int64_t by_finished, bool abrupt);
  bool hindered() const;
  bool are_apart(int rank, int neighbour) const;
  int apart_from(int rank) const;  // its neighbour that it does not reach, or -1
  bool torn() const;               // somewhere on the ring
  void fail_to_form(int rank, Process& process);

  Timeline& time_;
  Chance& chance_;
  const Apart& apart_;
  std::vector<rendezvous::Member> members_;
  std::vector<Seat> seats_;
  std::map<int64_t, Round> rounds_;
};

class Rings {
 public:
  Rings(Timeline& time, Chance& chance) : time_(time), chance_(chance) {}

  Ring& of(const rendezvous::Directive& join);
  void poke();
  void set_apart(const std::string& a, const std::string& b, bool apart);

 private:
  Timeline& time_;
  Chance& chance_;
  Apart apart_;
  std::map<std::tuple<std::string, int64_t, std::string>, std::unique_ptr<Ring>> rings_;
};

}  // namespace holdfast::sim
