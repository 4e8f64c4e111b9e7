// From a ring that stands to its first step: where the state comes from, who copies it, who computes what
// (worker/state/source.cpp, worker/state/agreement.cpp and agree_on_shares in worker/step/step_start.cpp).
#include <algorithm>
#include <map>
#include <utility>

#include "tests/sim/host.h"
#include "tests/sim/process.h"
#include "tests/sim/rules/rules.h"
#include "tests/sim/training/train_thread.h"
#include "tests/sim/training/train_thread_divided.h"

namespace holdfast::sim {

using rendezvous::StateSource;

void TrainThread::acquire_state() {
  if (join_.source.kind == StateSource::Kind::kMemory) return offer_state();
  refused_in_row_ = 0;
  const auto kept = kept_;
  if (divided_->is_on()) around_.rules.divided_states.dropped(job_, process_.incarnation());
  divided_->hold_nothing();
  kept_ = kept;
  if (join_.source.kind == StateSource::Kind::kInitial) {
    state_ = initial_state();
    return offer_state();
  }
  if (join_.rank == 0) return after(around_.chance.between(10, 300), &TrainThread::read_checkpoint);
  gather({}, -1, [this](const std::vector<Piece>& all) { rank0_has_read(all); });
}

void TrainThread::read_checkpoint() {
  if (interrupted_) return stop_interrupted();
  if (around_.disk.failing) return after(500, &TrainThread::read_checkpoint);
  const auto* manifest = around_.disk.find(join_.source.job, join_.source.step);
  Piece piece;
  if (manifest == nullptr) piece.failure = "there is none";
  if (manifest != nullptr && manifest->state.hash() != join_.source.state_hash) piece.failure = "its hash is another";
  if (piece.failure.empty()) {
    state_ = manifest->state;
  }
  if (!piece.failure.empty()) around_.rules.checkpoint_unreadable(join_, piece.failure);
  // A worker that is alone is believed when it says so twice.
  if (piece.failure.empty() && join_.members.size() > 1 && process_.host().reading_goes_bad())
    piece.failure = "this host cannot read it";
  gather(std::move(piece), -1, [this](const std::vector<Piece>& all) { rank0_has_read(all); });
}

void TrainThread::rank0_has_read(const std::vector<Piece>& pieces) {
  if (pieces[0].failure.empty()) return offer_state();
  if (join_.rank != 0) return stop({.reason = "rank 0 could not read the checkpoint", .fault = {}});
  stop({.reason = pieces[0].failure, .fault = "checkpoint_unreadable", .checkpoint_step = join_.source.step});
}

void TrainThread::offer_state() {
  const auto patience = static_cast<int64_t>(spec_.collective_timeout_s * 1000);
  worker::StepHistory history = process_.reports().valid_history(join_);
  history.truncate(join_.source.step);
  Piece mine;
  mine.held_step = held_step();
  mine.refused_in_row = refused_in_row_;
  mine.applied_step = divided_->applied_step;
  mine.summed_step = divided_->summed_step;
  if (state_) {
    mine.hash = state_->hash();
    mine.state = std::make_shared<const ModelState>(*state_);
  }
  mine.unconfirmed = {history.points().begin(), history.points().end()};
  gather(std::move(mine), patience, [this](const std::vector<Piece>& all) { choose_donor(all); });
}

void TrainThread::choose_donor(const std::vector<Piece>& offers) {
  const auto no_common_state = [this](const std::string& reason) {
    around_.rules.bad_memory.states_differ(join_, {reason, {}});
    stop({.reason = reason, .fault = "state_mismatch"});
  };
  if (divided_->is_on()) return divided_->divide(offers);
  const StateSource& source = join_.source;
  donor_ = -1;
  for (int rank = 0; rank < ring_->size(); ++rank) {
    const Piece& offer = offers[static_cast<size_t>(rank)];
    if (offer.held_step != source.step || (!source.state_hash.empty() && offer.hash != source.state_hash)) continue;
    if (donor_ < 0) donor_ = rank;
    if (source.kind == StateSource::Kind::kMemory && offer.hash != offers[static_cast<size_t>(donor_)].hash)
      return no_common_state(fmt::format("after step {} ranks {} and {} hold different states", source.step, donor_, rank));
  }
  if (donor_ < 0) return no_common_state(fmt::format("no rank holds the state of step {}", source.step));
  offers_ = offers;
  const Piece& found = offers[static_cast<size_t>(donor_)];
  refused_in_row_ = found.refused_in_row;
  const auto differs = [&](const Piece& offer) { return offer.held_step != found.held_step || offer.hash != found.hash; };
  // Equal bits are the donor's state, whoever computed them.
  if (!differs(offers[static_cast<size_t>(join_.rank)])) state_ = *found.state;
  if (std::ranges::none_of(offers, differs)) return agreed_on_state();
  if (differs(offers[static_cast<size_t>(join_.rank)])) {
    divided_->hold_nothing();  // it is being written to
  }
  Piece mine;
  if (join_.rank == donor_) mine.state = std::make_shared<const ModelState>(*state_);
  gather(std::move(mine), -1, [this](const std::vector<Piece>& all) { take_state(all); });
}

void TrainThread::take_state(const std::vector<Piece>& pieces) {
  if (!state_) state_ = *pieces[static_cast<size_t>(donor_)].state;
  agreed_on_state();
}

void TrainThread::agreed_on_state() {
  // merge_history of worker/state/agreement.cpp: every step that anybody has not seen confirmed, once.
  std::map<int64_t, rendezvous::StepPoint> merged;
  for (const Piece& offer : offers_) {
    for (const auto& point : offer.unconfirmed) {
      if (point.step <= join_.source.step) merged.try_emplace(point.step, point);
    }
  }
  worker::StepHistory history;
  const int64_t before = merged.empty() ? join_.source.step : merged.begin()->first - 1;
  history.acknowledge(std::min({process_.reports().acknowledged(), join_.source.step, before}));
  for (auto& [_, point] : merged) history.add(point);
  if (join_.source.kind != StateSource::Kind::kMemory) kept_ = {};
  process_.reports().replace_history(std::move(history), state_->step);
  offers_.clear();
  around_.rules.goes_on_from(process_, join_, *state_);
  process_.reports().begin(join_.job, join_.generation, join_.rank == 0);
  process_.feed(worker::Joined{state_->step});
  Piece mine;
  if (spec_.divides_gradients()) kept_ = {};  // they went to their owners, and the step begins anew
  if (kept_.bits == state_->bits) mine.kept = kept_.microbatches;
  std::ranges::sort(mine.kept);
  gather(std::move(mine), static_cast<int64_t>(spec_.collective_timeout_s * 1000),
         [this](const std::vector<Piece>& all) { agree_on_shares(all); });
}

void TrainThread::agree_on_shares(const std::vector<Piece>& pieces) {
  std::vector<worker::Microbatches> kept;
  for (const Piece& piece : pieces) kept.push_back(piece.kept);
  shares_ = worker::deal_rest(spec_.microbatches(), kept, divided_->computing());
  if (!shares_.keeps[static_cast<size_t>(join_.rank)]) kept_ = {};
  balancer_.emplace(spec_.microbatches(), divided_->computing());
  slow_steps_ = 0;
  begin_step();
}

}  // namespace holdfast::sim
