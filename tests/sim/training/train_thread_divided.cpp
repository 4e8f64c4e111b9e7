// A state that is divided among the ranks.
#include "tests/sim/training/train_thread_divided.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "tests/sim/process.h"
#include "tests/sim/rules/rules.h"
#include "tests/sim/violation.h"

namespace holdfast::sim {

using worker::Holdings;
using worker::Ownership;
using worker::RankSet;

namespace {

constexpr size_t kWindowChunks = 2;
constexpr int64_t kToldWithinMs = 5000;

// The rank that `me` takes it from: the nearest before it on the ring that has it.
const DividedMemory& source_of(const RankSet& has, size_t me, const std::vector<Piece>& shown) {
  if (std::ranges::find(has, true) == has.end()) throw Violation("a chunk is to come from ranks of which none has it");
  size_t rank = me;
  while (!has[rank]) rank = (rank + has.size() - 1) % has.size();
  return *shown[rank].memory;
}

}  // namespace

void TrainThread::Divided::hold_nothing() {
  thread_.state_.reset();
  thread_.kept_ = {};
  memory_ = {};
  applied_step = summed_step = -1;
}

worker::Held TrainThread::Divided::held(bool counts) const {
  const ModelState* const state = thread_.state_ ? &*thread_.state_ : nullptr;
  return memory_.held(thread_.join_.members[me()].worker, counts, kinds_of(thread_.spec_), state);
}

Holdings TrainThread::Divided::judged(const std::vector<Piece>& pieces) const {
  std::vector<worker::Held> held;
  for (const Piece& piece : pieces) held.push_back(piece.held);
  Holdings holdings = worker::judge_holdings(std::move(held), kinds_of(thread_.spec_));
  if (holdings.differs) throw Violation(fmt::format("generation {}: {}", thread_.join_.generation, *holdings.differs));
  return holdings;
}

void TrainThread::Divided::divide(const std::vector<Piece>& offers) {
  const int64_t step = thread_.join_.source.step;
  thread_.offers_ = offers;
  thread_.donor_ = -1;
  const auto donor = std::ranges::find(offers, step, &Piece::held_step);
  if (donor == offers.end()) {
    const std::string reason = fmt::format("no rank holds its part of the state of step {}", step);
    thread_.around_.rules.bad_memory.states_differ(thread_.join_, {reason, {}});
    return thread_.stop({.reason = reason, .fault = "state_mismatch"});
  }
  thread_.donor_ = static_cast<int>(donor - offers.begin());
  const Piece& found = *donor;
  thread_.refused_in_row_ = found.refused_in_row;
  if (thread_.join_.source.kind != rendezvous::StateSource::Kind::kMemory) return place_from_source();
  // Ranks that are a step behind apply it to what they own: they have its gradient, and the norm is with whoever applied it.
  const auto applied =
      std::ranges::find_if(offers, [&](const Piece& offer) { return offer.held_step == step && offer.applied_step == step; });
  const bool was_left_out = applied != offers.end() && applied->summed_step != step;
  const Piece& mine = offers[me()];
  const bool catches_up = mine.held_step == step - 1 && (was_left_out || (applied != offers.end() && mine.summed_step == step));
  if (catches_up) {
    const uint64_t before = thread_.state_->bits;
    thread_.state_ = *found.state;
    was_left_out ? leave_out(before) : apply(before);
    thread_.kept_ = {};
    applied_step = step;
  } else if (mine.held_step == step && mine.hash == found.hash) {
    thread_.state_ = *found.state;  // equal bits are the donor's state, whoever computed them
  } else if (mine.held_step == step) {
    throw Violation(fmt::format("after step {} ranks {} and {} hold parts of different states", step, thread_.donor_, me()));
  }
  const bool is_current = catches_up || mine.held_step == step;
  Piece word;
  word.held = held(is_current);
  if (!is_current) thread_.state_.reset();
  if (!is_current) thread_.kept_ = {};
  thread_.gather(std::move(word), patience_ms(), [this](const std::vector<Piece>& pieces) { place(pieces); });
}

void TrainThread::Divided::lose() {
  thread_.around_.rules.divided_states.lost(thread_.join_);
  thread_.around_.rules.bad_memory.lost(thread_.join_);
  thread_.stop({.reason = "nobody has some chunk of the state any more", .fault = "state_lost"});
}

// Nobody holds anything yet: owners have their parts from there.
void TrainThread::Divided::place_from_source() {
  const auto ranks = static_cast<size_t>(thread_.ring_->size());
  std::vector<Piece> nothing(ranks);
  for (size_t rank = 0; rank < ranks; ++rank)
    nothing[rank].held = DividedMemory().held(thread_.join_.members[rank].worker, false, kinds_of(thread_.spec_), nullptr);
  const auto placed = rendezvous::place(
      worker::question_of(std::vector<int64_t>(kChunks, 12), thread_.spec_.replicas, judged(nothing), RankSet(ranks)));
  if (!placed) throw Violation("the state cannot be divided: " + placed.error());
  const Ownership ownership = worker::settled(std::get<rendezvous::Placement>(*placed), kChunks);
  owners_min_.assign(kChunks, ownership.target.replicas);
  thread_.gather({}, -1, [this, ownership](const auto&) {
    thread_.state_ = *thread_.offers_[static_cast<size_t>(thread_.donor_)].state;
    thread_.gather({}, -1, [this, ownership](const auto&) {
      memory_.fill(thread_.state_->bits);
      begin(ownership);
    });
  });
}

void TrainThread::Divided::place(const std::vector<Piece>& pieces) {
  const Holdings holdings = judged(pieces);
  if (!holdings.lost.empty()) return lose();
  const Piece& donor = thread_.offers_[static_cast<size_t>(thread_.donor_)];
  if (holdings.hash() != hash_of_pieces(donor.state->bits))
    throw Violation(fmt::format("generation {} of {}: what its ranks hold of the state of step {} has another hash",
                                thread_.join_.generation, thread_.join_.job, donor.held_step));
  const RankSet nobody(pieces.size());
  const auto placed =
      rendezvous::place(worker::question_of(std::vector<int64_t>(kChunks, 12), thread_.spec_.replicas, holdings, nobody));
  if (!placed) throw Violation("the state cannot be divided: " + placed.error());
  if (std::holds_alternative<rendezvous::LostChunks>(*placed)) return lose();
  const auto& target = std::get<rendezvous::Placement>(*placed);
  Ownership ownership = worker::on_the_way(target, holdings, kChunks);
  leave_copies_for_later(ownership, holdings, nobody);
  owners_min_.clear();
  for (size_t c = 0; c < kChunks; ++c)
    owners_min_.push_back(std::min<int64_t>(std::ranges::count(holdings.has[kChunks + c], true), target.replicas));
  Piece mine;
  mine.memory = memory();
  thread_.gather(std::move(mine), -1, [this, ownership, holdings](const std::vector<Piece>& shown) {
    take(ownership, holdings, shown);
    if (!thread_.state_) thread_.state_ = *thread_.offers_[static_cast<size_t>(thread_.donor_)].state;
    thread_.gather({}, -1, [this, ownership](const auto&) { begin(ownership); });
  });
}

// Parts that have come are held whatever becomes of the ring, for others may let go of them.
void TrainThread::Divided::take(const Ownership& ownership, const Holdings& holdings, const std::vector<Piece>& shown) {
  const auto owned = owned_by(ownership, me()), lacked = lacked_by(ownership, me()), to_come = copies_to_come(ownership, me());
  const auto copies_at = kinds_of(thread_.spec_).copies_at;
  for (size_t c = 0; c < kChunks; ++c) {
    const RankSet& has = holdings.has[kChunks + c];
    memory_.sound[c] = memory_.sound[c] && has[me()];
    if (owned[c] && !lacked[c] && !memory_.sound[c]) {
      memory_.parts[c] = source_of(has, me(), shown).parts[c];
      memory_.sound[c] = true;
    }
    memory_.copied[c] = !to_come[c];
    if (copies_at && !to_come[c]) memory_.copies[c] = source_of(holdings.has[*copies_at + c], me(), shown).copies[c];
  }
}

void TrainThread::Divided::begin(const Ownership& ownership) {
  ownership_ = ownership;
  memory_.settle(ownership, me());
  thread_.around_.rules.divided_states.begins(thread_.join_);
  thread_.agreed_on_state();
}

std::vector<bool> TrainThread::Divided::computing() const {
  return worker::computing_ranks(is_on() ? ownership_ : Ownership(), static_cast<size_t>(thread_.ring_->size()));
}

ModelState TrainThread::Divided::computed_with() const {
  ModelState state = *thread_.state_;
  if (!is_on() || !kinds_of(thread_.spec_).copies_at) return state;
  for (const uint64_t copy : memory_.copies) {
    if (copy != thread_.state_->bits) state.bits = mixed(state.bits, copy);
  }
  return state;
}

void TrainThread::Divided::apply(uint64_t before) {
  before_ = before;
  if (is_on()) memory_.apply(before, thread_.state_->bits);
}

void TrainThread::Divided::leave_out(uint64_t before) {
  if (is_on()) memory_.leave_out(before, thread_.state_->bits);
}

void TrainThread::Divided::share(std::function<void()> then) {
  if (!is_on() || !thread_.agreed_.finite || !kinds_of(thread_.spec_).copies_at || thread_.ring_->size() == 1) return then();
  Piece mine;
  mine.memory = memory();
  thread_.gather(std::move(mine), patience_ms(), [this, then = std::move(then)](const std::vector<Piece>& shown) {
    const auto to_come = copies_to_come(ownership_, me());
    for (size_t c = 0; c < kChunks; ++c) {
      const RankSet has = holders_of(ownership_, c, shown.size());
      if (!has[me()] && !(copies_are_apart() && to_come[c]))
        memory_.take_copy(c, source_of(has, me(), shown).parts[c], copies_are_apart(), before_);
    }
    if (!copies_are_apart()) {
      ownership_.without_copy.assign(kChunks, {});
      memory_.copied.assign(kChunks, true);
    }
    then();
  });
}

// Each chunk has as many owners as it is to have, or as many as had it while some of it is still to come; parts and copies are
// of the state.
void TrainThread::Divided::require_owners(const std::vector<Piece>& pieces) const {
  const auto wanted = std::min<int64_t>(thread_.spec_.replicas, static_cast<int64_t>(pieces.size()));
  const uint64_t bits = thread_.state_->bits;
  const bool all_is_here = std::ranges::all_of(ownership_.lacking, [](const auto& ranks) { return ranks.empty(); });
  const auto broken = [&](size_t chunk, const std::string& what) {
    throw Violation(
        fmt::format("step {} of {} is done, and chunk {} {}", thread_.state_->step, thread_.join_.job, chunk, what));
  };
  for (size_t c = 0; c < kChunks; ++c) {
    const auto owners = std::ranges::count_if(pieces, [&](const Piece& piece) { return piece.memory->sound[c]; });
    if (all_is_here ? owners != wanted : owners < owners_min_[c])
      broken(c, fmt::format("has {} owners, not {}", owners, all_is_here ? wanted : owners_min_[c]));
    for (size_t rank = 0; rank < pieces.size(); ++rank) {
      const DividedMemory& memory = *pieces[rank].memory;
      if (memory.sound[c] && memory.parts[c] != bits) broken(c, fmt::format("is of another state at rank {}", rank));
      if (kinds_of(thread_.spec_).copies_at && memory.copied[c] && memory.copies[c] != bits)
        broken(c, fmt::format("has a compute copy of another state at rank {}", rank));
    }
  }
}

void TrainThread::Divided::require_hash(const std::vector<Piece>& pieces) const {
  if (!is_on()) return;
  const Holdings holdings = judged(pieces);
  if (!holdings.lost.empty() || !holdings.odd.empty() || holdings.hash() != hash_of_pieces(thread_.state_->bits))
    throw Violation(fmt::format("after step {} of {} the ranks' parts do not have the state's hash", thread_.state_->step,
                                thread_.join_.job));
}

std::vector<TrainThread::Divided::Item> TrainThread::Divided::window() const {
  std::vector<Item> items;
  if (!is_on()) return items;
  if (!copies_are_apart() && !ownership_.copies_are_here()) return items;  // after a step that was left out
  for (size_t c = 0; c < kChunks; ++c) {
    if (!ownership_.without_copy[c].empty()) items.push_back({c, true});
  }
  for (size_t c = 0; c < kChunks; ++c) {
    if (!ownership_.lacking[c].empty()) items.push_back({c, false});
  }
  items.resize(std::min(items.size(), kWindowChunks));
  return items;
}

void TrainThread::Divided::fill_some(std::function<void()> then) {
  const auto items = window();
  if (items.empty()) return then();
  Piece mine;
  mine.memory = memory();
  thread_.gather(std::move(mine), patience_ms(), [this, items, then = std::move(then)](const std::vector<Piece>& shown) {
    thread_.gather({}, patience_ms(), [this, items, shown, then](const auto&) { fill(items, shown, then); });
  });
}

// A piece that came is used if its digest is the one that the first rank tells that has it. Ranks let go of what they do not
// own when all have said that they have what they own.
void TrainThread::Divided::fill(const std::vector<Item>& window, const std::vector<Piece>& shown,
                                const std::function<void()>& then) {
  for (const auto& [c, is_copy] : window) {
    auto& lacking = is_copy ? ownership_.without_copy[c] : ownership_.lacking[c];
    RankSet has(shown.size(), true);
    for (const int32_t rank : lacking) has[static_cast<size_t>(rank)] = false;
    const bool lacks = !has[me()];
    if (!is_copy) has = holders_of(ownership_, c, shown.size());
    const auto bits_of = [&](const DividedMemory& memory) { return is_copy ? memory.copies[c] : memory.parts[c]; };
    const auto teller = static_cast<size_t>(std::ranges::find(has, true) - has.begin());
    if (lacks) {
      const uint64_t came = bits_of(source_of(has, me(), shown));
      if (came != bits_of(*shown[teller].memory))
        return thread_.stop({.reason = "a piece came altered", .fault = "connection_lost", .suspect_rank = thread_.join_.rank});
      (is_copy ? memory_.copies : memory_.parts)[c] = came;
      (is_copy ? memory_.copied : memory_.sound)[c] = true;
    }
    lacking.clear();
  }
  if (!ownership_.lacks_nothing()) return then();
  thread_.gather({}, patience_ms(), [this, then](const auto&) {
    ownership_ = worker::settled(ownership_.target, kChunks);
    memory_.settle(ownership_, me());
    then();
  });
}

void TrainThread::Divided::when_all_have_sums(std::function<void()> then) {
  if (!is_on() || thread_.ring_->size() == 1) return then();
  summed_step = thread_.state_->step + 1;
  thread_.gather({}, static_cast<int64_t>(thread_.spec_.collective_timeout_s * 1000),
                 [then = std::move(then)](const auto&) { then(); });
}

// --- checkpoints (all_can_write in worker/step/train_loop.cpp)

Writer TrainThread::Divided::writer() const {
  return is_on() ? Writer{thread_.join_.rank, thread_.ring_->size()} : Writer{};
}

void TrainThread::Divided::when_it_is_known_who_can_write(std::function<void(bool all_can)> then) {
  if (!is_on()) return then(true);
  Piece mine;
  mine.can_write = thread_.process_.checkpoints().can_write();
  thread_.gather(
      std::move(mine), static_cast<int64_t>(thread_.spec_.collective_timeout_s * 1000),
      [then = std::move(then)](const std::vector<Piece>& all) { then(std::ranges::all_of(all, &Piece::can_write)); });
}

void TrainThread::Divided::when_all_can_write(std::function<void()> then) {
  if (!is_on()) return then();
  if (thread_.interrupted_) return thread_.stop_interrupted();
  if (!thread_.process_.checkpoints().can_write()) {
    return thread_.process_.later(5, [this, then = std::move(then), task = thread_.task_] {
      if (task == thread_.task_) when_all_can_write(then);
    });
  }
  thread_.gather({}, -1, [then = std::move(then)](const auto&) { then(); });
}

// --- before ranks leave (hand_over_what_goes in worker/step/train_loop.cpp)

void TrainThread::Divided::hand_over(std::function<void()> then) {
  if (!is_on() || thread_.ring_->size() == 1) return then();
  then_ = std::move(then);
  wait_for_word(thread_.around_.time.now() + kToldWithinMs);
}

void TrainThread::Divided::wait_for_word(int64_t until_ms) {
  if (thread_.interrupted_) return thread_.stop_interrupted();
  if (!thread_.yield_ && thread_.around_.time.now() < until_ms) {
    return thread_.process_.later(5, [this, until_ms, task = thread_.task_] {
      if (task == thread_.task_) wait_for_word(until_ms);
    });
  }
  Piece mine;
  mine.held = held(true);
  mine.goes = thread_.leaving_ || thread_.released_;
  thread_.gather(std::move(mine), patience_ms(), [this](const std::vector<Piece>& pieces) { hand_over_from(pieces); });
}

void TrainThread::Divided::hand_over_from(const std::vector<Piece>& pieces) {
  stays_.clear();
  RankSet leaving;
  for (size_t rank = 0; rank < pieces.size(); ++rank) {
    leaving.push_back(pieces[rank].goes);
    if (!pieces[rank].goes) stays_.insert(thread_.join_.members[rank].incarnation);
  }
  if (stays_.empty()) return then_();
  if (stays_.size() == pieces.size()) return handed_over();
  const Holdings holdings = judged(pieces);
  if (!holdings.lost.empty()) throw Violation("leavers and others lack a chunk together");
  const auto placed =
      rendezvous::place(worker::question_of(std::vector<int64_t>(kChunks, 12), thread_.spec_.replicas, holdings, leaving));
  if (!placed || !std::holds_alternative<rendezvous::Placement>(*placed))
    throw Violation("what leavers have cannot be handed over" + (placed ? std::string() : ": " + placed.error()));
  Ownership ownership = worker::settled(std::get<rendezvous::Placement>(*placed), kChunks);
  leave_copies_for_later(ownership, holdings, leaving);
  Piece mine;
  mine.memory = memory();
  thread_.gather(std::move(mine), -1, [this, ownership, holdings](const std::vector<Piece>& shown) {
    take(ownership, holdings, shown);
    thread_.gather({}, -1, [this](const auto&) { handed_over(); });
  });
}

void TrainThread::Divided::handed_over() {
  thread_.around_.rules.divided_states.handed_over(thread_.join_, stays_);
  then_();
}

}  // namespace holdfast::sim
