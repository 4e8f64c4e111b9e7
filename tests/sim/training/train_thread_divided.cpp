// A state that is divided among the ranks.
#include "tests/sim/training/train_thread_divided.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "tests/sim/process.h"
#include "tests/sim/rules/rules.h"
#include "tests/sim/violation.h"

namespace holdfast::sim {
namespace {

constexpr size_t kChunks = 7, kWindowChunks = 2;
constexpr int64_t kToldWithinMs = 5000;

rendezvous::PlacementQuestion question_of(const rendezvous::Directive& join, const std::vector<Piece>& pieces,
                                          int64_t replicas) {
  rendezvous::PlacementQuestion question;
  question.chunk_bytes.assign(kChunks, 12);
  question.replicas = replicas;
  for (size_t rank = 0; rank < pieces.size(); ++rank)
    question.members.push_back(
        {.node = join.members[rank].worker, .bytes_max = pieces[rank].goes ? 1 : 0, .holds = pieces[rank].sound});
  return question;
}

std::vector<bool> owned_by(const rendezvous::Placement& placement, int rank) {
  std::vector<bool> owned;
  for (size_t c = 0; c < kChunks; ++c) {
    const auto owners = placement.owners_of(c);
    owned.push_back(std::ranges::find(owners, rank) != owners.end());
  }
  return owned;
}

}  // namespace

void TrainThread::Divided::hold_nothing() {
  thread_.state_.reset();
  thread_.kept_ = {};
  sound_.assign(kChunks, false);
  applied_step = summed_step = -1;
}

void TrainThread::Divided::hold_all() {
  sound_.assign(kChunks, true);
}

void TrainThread::Divided::divide(const std::vector<Piece>& offers) {
  const int64_t step = thread_.join_.source.step;
  const auto me = static_cast<size_t>(thread_.join_.rank);
  thread_.offers_ = offers;
  thread_.donor_ = -1;
  const auto donor = std::ranges::find(offers, step, &Piece::held_step);
  if (donor == offers.end()) throw Violation(fmt::format("no rank holds its part of the state of step {}", step));
  thread_.donor_ = static_cast<int>(donor - offers.begin());
  const Piece& found = *donor;
  // Ranks that are a step behind apply it to what they own: they have its gradient, and the norm is with whoever applied it.
  const auto applied =
      std::ranges::find_if(offers, [&](const Piece& offer) { return offer.held_step == step && offer.applied_step == step; });
  const bool was_left_out = applied != offers.end() && applied->summed_step != step;
  const auto is_current = [&](const Piece& offer) {
    const bool has_all = was_left_out || (applied != offers.end() && offer.summed_step == step);
    return offer.held_step == step || (offer.held_step == step - 1 && has_all);
  };
  std::vector<Piece> holders = offers;
  for (Piece& offer : holders) {
    if (!is_current(offer)) offer.sound.assign(kChunks, false);
  }
  thread_.refused_in_row_ = found.refused_in_row;
  if (!is_current(offers[me])) {
    hold_nothing();
  } else if (offers[me].held_step != step) {
    thread_.state_ = *found.state;
    thread_.kept_ = {};
    applied_step = step;
  } else if (offers[me].hash == found.hash) {
    thread_.state_ = *found.state;  // equal bits are the donor's state, whoever computed them
  } else {
    throw Violation(fmt::format("after step {} ranks {} and {} hold parts of different states", step, thread_.donor_, me));
  }
  const auto placed = rendezvous::place(question_of(thread_.join_, holders, thread_.spec_.replicas));
  if (!placed) throw Violation("the state cannot be divided: " + placed.error());
  if (std::holds_alternative<rendezvous::LostChunks>(*placed)) {
    thread_.around_.rules.divided_states.lost(thread_.join_);
    thread_.around_.rules.bad_memory.lost(thread_.join_);
    return thread_.stop({.reason = "nobody has some chunk of the state any more", .fault = "state_lost"});
  }
  target_ = std::get<rendezvous::Placement>(*placed);
  owned_ = owned_by(target_, thread_.join_.rank);
  if (target_.from_source && thread_.join_.source.kind == rendezvous::StateSource::Kind::kMemory) {
    thread_.around_.rules.divided_states.lost(thread_.join_);
    thread_.around_.rules.bad_memory.lost(thread_.join_);
    return thread_.stop({.reason = "nobody has any chunk of the state any more", .fault = "state_lost"});
  }
  const bool all_is_here = target_.from_source || lacked(holders).empty();
  thread_.gather({}, -1, [this, all_is_here](const auto&) {
    if (!thread_.state_) thread_.state_ = *thread_.offers_[static_cast<size_t>(thread_.donor_)].state;
    thread_.gather({}, -1, [this, all_is_here](const auto&) {
      if (all_is_here) sound_ = owned_;
      begin();
    });
  });
}

std::vector<size_t> TrainThread::Divided::lacked(const std::vector<Piece>& pieces) const {
  std::vector<size_t> chunks;
  for (size_t c = 0; c < kChunks; ++c) {
    if (std::ranges::any_of(target_.owners_of(c), [&](int32_t rank) { return !pieces[static_cast<size_t>(rank)].sound[c]; }))
      chunks.push_back(c);
  }
  return chunks;
}

// Parts that have come are held whatever becomes of the ring, for others may let go of them.
void TrainThread::Divided::take_owned() {
  for (size_t c = 0; c < kChunks; ++c) sound_[c] = sound_[c] || owned_[c];
}

void TrainThread::Divided::begin() {
  thread_.around_.rules.divided_states.begins(thread_.join_);
  thread_.agreed_on_state();
}

// Each chunk has as many owners as it is to have, or as many as had it while some of it is still to come.
void TrainThread::Divided::require_owners(const std::vector<Piece>& pieces) const {
  const auto wanted = std::min<int64_t>(thread_.spec_.replicas, static_cast<int64_t>(pieces.size()));
  const bool all_is_here = lacked(pieces).empty();
  for (size_t c = 0; c < kChunks; ++c) {
    const auto owners = std::ranges::count_if(pieces, [&](const Piece& piece) { return piece.sound[c]; });
    if (all_is_here ? owners != wanted : owners < 1)
      throw Violation(fmt::format("step {} of {} is done, and chunk {} has {} owners, not {}", thread_.state_->step,
                                  thread_.join_.job, c, owners, wanted));
  }
}

// Ranks let go of what they do not own when all have said that they have what they own.
void TrainThread::Divided::fill_some(const std::vector<Piece>& pieces, std::function<void()> then) {
  const auto lacking = is_on() ? lacked(pieces) : std::vector<size_t>();
  if (lacking.empty()) return then();
  const size_t count = std::min(lacking.size(), kWindowChunks);
  const auto patience = static_cast<int64_t>(thread_.spec_.collective_timeout_s * 1000);
  thread_.gather({}, patience, [this, lacking, count, patience, then = std::move(then)](const auto&) {
    for (size_t i = 0; i < count; ++i) sound_[lacking[i]] = sound_[lacking[i]] || owned_[lacking[i]];
    if (count < lacking.size()) return then();
    thread_.gather({}, patience, [this, then](const auto&) {
      sound_ = owned_;
      then();
    });
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
  mine.sound = sound_;
  mine.goes = thread_.leaving_ || thread_.released_;
  thread_.gather(std::move(mine), static_cast<int64_t>(thread_.spec_.collective_timeout_s * 1000),
                 [this](const std::vector<Piece>& pieces) { hand_over_from(pieces); });
}

void TrainThread::Divided::hand_over_from(const std::vector<Piece>& pieces) {
  stays_.clear();
  for (size_t rank = 0; rank < pieces.size(); ++rank) {
    if (!pieces[rank].goes) stays_.insert(thread_.join_.members[rank].incarnation);
  }
  if (stays_.empty()) return then_();
  if (stays_.size() == pieces.size()) return handed_over();
  const auto replicas = std::min(thread_.spec_.replicas, static_cast<int64_t>(stays_.size()));
  const auto placed = rendezvous::place(question_of(thread_.join_, pieces, replicas));
  if (!placed || !std::holds_alternative<rendezvous::Placement>(*placed))
    throw Violation("what leavers have cannot be handed over" + (placed ? std::string() : ": " + placed.error()));
  owned_ = owned_by(std::get<rendezvous::Placement>(*placed), thread_.join_.rank);
  thread_.gather({}, -1, [this](const auto&) {
    take_owned();
    thread_.gather({}, -1, [this](const auto&) { handed_over(); });
  });
}

void TrainThread::Divided::handed_over() {
  thread_.around_.rules.divided_states.handed_over(thread_.join_, stays_);
  then_();
}

}  // namespace holdfast::sim
