#include "worker/state/divided/agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "worker/state/divided/catch_up.h"
#include "worker/state/divided/compute_copies.h"
#include "worker/state/divided/division.h"
#include "worker/state/divided/holdings.h"
#include "worker/state/divided/owners.h"
#include "worker/state/offers.h"

namespace holdfast::worker {
namespace {

using rendezvous::StateSource;

size_t me_in(const Communicator& ring) {
  return static_cast<size_t>(ring.rank());
}

RankSet everyone(const Communicator& ring) {
  return RankSet(static_cast<size_t>(ring.world_size()), true);
}

// By piece, the ranks that are to have it now: compute copies and what belongs to no chunk, all; moments, and parameters where
// copies are apart, their owners, but for those to whom it comes later.
std::vector<RankSet> wanted_pieces(const Ownership& ownership, const Session& session, size_t pieces,
                                   const Communicator& ring) {
  std::vector<RankSet> wanted(pieces, everyone(ring));
  const size_t chunks = session.sound.size();
  const auto copies_at = kinds_of_told(session).copies_at;
  for (size_t c = 0; c < chunks; ++c) {
    const RankSet holders = holders_of(ownership, c, static_cast<size_t>(ring.world_size()));
    wanted[chunks + c] = wanted[2 * chunks + c] = holders;
    if (session.state->copies_apart()) wanted[c] = holders;
    for (const int32_t rank : ownership.without_copy[c]) wanted[copies_at.value() + c][static_cast<size_t>(rank)] = false;
  }
  return wanted;
}

struct Movement {
  std::vector<RoutedPiece> pieces;
  std::vector<int64_t> bytes;  // that each rank takes
  std::vector<bool> comes;     // by piece, to this rank
  bool is_none() const {
    return std::ranges::all_of(bytes, [](int64_t taken) { return taken == 0; });
  }
};

Movement movement_to(const std::vector<RankSet>& wanted, const Holdings& holdings, std::span<const model::StatePiece> here,
                     const Communicator& ring) {
  Movement movement{{}, std::vector<int64_t>(static_cast<size_t>(ring.world_size())), {}};
  for (size_t piece = 0; piece < here.size(); ++piece) {
    const RankSet& has = holdings.has[piece];
    const Way way = way_of(has, wanted[piece], ring.rank());
    const size_t me = me_in(ring);
    const bool mine = has[me] || wanted[piece][me];
    movement.comes.push_back(wanted[piece][me] && !has[me]);
    movement.pieces.push_back({mine ? here[piece].data : nullptr, here[piece].bytes, here[piece].on_host, way});
    for (size_t rank = 0; rank < has.size(); ++rank) {
      if (wanted[piece][rank] && !has[rank]) movement.bytes[rank] += static_cast<int64_t>(here[piece].bytes);
    }
  }
  return movement;
}

class Agreeing {
 public:
  Agreeing(Communicator& ring, Session& session, const std::string& node, int64_t step)
      : ring_(ring),
        session_(session),
        node_(node),
        chunks_(session.state->owned().size()),
        early_(std::exchange(session.digested, {})) {
    agreed_.step = step;
    agreed_.divided = true;
  }

  RunResult<StateAgreement> run(const StateSource& source, StepHistory& history, const Restoring& restoring) {
    const auto begin = std::chrono::steady_clock::now();
    const auto offers = gather_offers(ring_, offer_of(session_, history));
    if (!offers) return tl::unexpected(offers.error());
    auto holdings = source.kind == StateSource::Kind::kInitial      ? begin_division()
                    : source.kind == StateSource::Kind::kCheckpoint ? begin_from_checkpoint(source, restoring)
                                                                    : go_on_from_memory(*offers);
    if (!holdings) return tl::unexpected(holdings.error());
    agreed_.hash = holdings->hash();
    merge_history(*offers, agreed_.step, history);
    agreed_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return agreed_;
  }

  RunResult<void> hand_over(const RankSet& leaving) {
    current_ = everyone(ring_);
    const PieceDigests before = digests_of_told(session_, early_);
    const auto holdings = gather_holdings(ring_, session_, node_, true, before);
    if (!holdings) return tl::unexpected(holdings.error());
    if (holdings->differs) return tl::unexpected(differing(*holdings));
    if (!holdings->lost.empty()) return tl::unexpected(lost_chunks(session_, holdings->lost));
    const auto placement = place_chunks(session_, *holdings, leaving);
    if (!placement) return tl::unexpected(placement.error());
    Ownership ownership = settled(*placement, chunks_);  // all moves now: who leaves gives nothing later
    leave_copies_for_later(ownership, *holdings, leaving);
    const auto came = move_pieces(ownership, *holdings);
    if (!came) return tl::unexpected(came.error());
    auto digests = digests_of_told(session_, before, *came);
    trust_what_came(ownership, digests, holdings->right);
    if (auto now = checked(ownership, digests); !now) return tl::unexpected(now.error());
    session_.digested = {agreed_.step, std::move(digests)};
    return {};
  }

 private:
  RankSet nobody() const { return RankSet(static_cast<size_t>(ring_.world_size())); }

  // The ranks that hold the step, or can after they have caught up.
  RunResult<void> find_current(const std::vector<Offer>& offers) {
    for (const Offer& offer : offers) current_.push_back(offer.step == agreed_.step);
    const auto first = std::ranges::find(current_, true);
    if (first == current_.end()) {
      return tl::unexpected(state_mismatch(fmt::format("no rank holds its part of the state of step {}; by rank they hold: {}",
                                                       agreed_.step, steps_held(offers))));
    }
    agreed_.donor = static_cast<int>(first - current_.begin());
    agreed_.donors = static_cast<int>(std::ranges::count(current_, true));
    agreed_.receivers = ring_.world_size() - agreed_.donors;
    agreed_.received = !current_[me_in(ring_)];
    RankSet now = catch_up_to(session_, ring_.rank(), offers, agreed_.step);
    if (now == current_) return {};
    current_ = std::move(now);
    agreed_.how = StateAgreement::How::kGradient;
    agreed_.refused = offers[static_cast<size_t>(agreed_.donor)].refused_last;
    return {};
  }

  // Nobody holds anything yet.
  RunResult<Ownership> place_anew() {
    current_ = everyone(ring_);
    const auto told = gather_holdings(ring_, session_, node_, false, PieceDigests(told_pieces(session_).size()));
    if (!told) return tl::unexpected(told.error());
    const auto placement = place_chunks(session_, *told, nobody());
    if (!placement) return tl::unexpected(placement.error());
    settle(settled(*placement, chunks_));
    return session_.ownership;
  }

  // Owners have their parameters from the seed, and moments of 0.
  RunResult<Holdings> begin_division() {
    const auto ownership = place_anew();
    if (!ownership) return tl::unexpected(ownership.error());
    if (const auto read = session_.state->initialize(*session_.initial); !read)
      return tl::unexpected(fault("init_from_unreadable", read.error()));
    return checked(*ownership, digests_of_told(session_));
  }

  RunResult<Holdings> begin_from_checkpoint(const StateSource& source, const Restoring& restoring) {
    const auto ownership = place_anew();
    if (!ownership) return tl::unexpected(ownership.error());
    const auto manifest = restore_own(session_, restoring, source.step, ring_.rank() == 0);
    if (!manifest) return tl::unexpected(manifest.error());
    if (const auto shared = share_copies_as_they_are(ring_, session_); !shared)
      return tl::unexpected(ring_stop(shared.error()));
    session_.state->step = source.step;
    session_.has_state = true;
    auto holdings = checked(*ownership, digests_of_told(session_));
    if (!holdings || manifest->format_version < storage::Manifest::kHashOfPieces) return holdings;
    if (holdings->hash() == manifest->state_hash) return holdings;
    session_.has_state = false;
    // All find the same sum of what each has read: that is the word of one.
    if (ring_.rank() != 0) return tl::unexpected(interrupted("the checkpoint's hash is not what its manifest says"));
    RunStop stop = fault("checkpoint_unreadable",
                         fmt::format("the checkpoint of step {}: hash of the state is {}, the manifest says {}: it was "
                                     "assembled from shards of different writes",
                                     source.step, holdings->hash(), manifest->state_hash));
    stop.checkpoint_step = source.step;
    return tl::unexpected(std::move(stop));
  }

  RunResult<Holdings> go_on_from_memory(const std::vector<Offer>& offers) {
    if (auto found = find_current(offers); !found) return tl::unexpected(found.error());
    return take_pieces(offers[static_cast<size_t>(agreed_.donor)]);
  }

  RunResult<Holdings> take_pieces(const Offer& donor) {
    const size_t me = me_in(ring_);
    const PieceDigests before = digests_of_told(session_, early_);
    auto holdings = gather_holdings(ring_, session_, node_, current_[me], before);
    if (!holdings) return holdings;
    if (holdings->differs) return tl::unexpected(differing(*holdings));
    // A newcomer may hold the step and no part of it yet, and all others be gone.
    if (!holdings->lost.empty()) return tl::unexpected(lost_chunks(session_, holdings->lost));
    const auto placement = place_chunks(session_, *holdings, nobody());
    if (!placement) return tl::unexpected(placement.error());
    if (!current_[me]) session_.has_state = false;
    // The moments and masters that an owner lacks, and a newcomer's copies, come while training goes on (filling.h).
    Ownership ownership = on_the_way(*placement, *holdings, chunks_);
    leave_copies_for_later(ownership, *holdings, nobody());
    agreed_.later = std::ranges::count(computing_ranks(ownership, current_.size()), false);
    const auto came = move_pieces(ownership, *holdings);
    if (!came) return tl::unexpected(came.error());
    auto digests = digests_of_told(session_, before, *came);
    if (trust_what_came(ownership, digests, holdings->right) && !current_[me]) hold_the_step(donor);
    auto now = checked(ownership, std::move(digests));
    if (now) settle(ownership);
    return now;
  }

  // Beside what this rank holds it makes room for what it is to own, and takes what it lacks. Returns, by piece, whether it
  // came.
  RunResult<std::vector<bool>> move_pieces(const Ownership& ownership, const Holdings& holdings) {
    const size_t me = me_in(ring_);
    std::vector<bool> both = owned_by(ownership, me);
    for (size_t c = 0; c < chunks_; ++c) {
      const bool right = holdings.has[c][me] && holdings.has[chunks_ + c][me] && holdings.has[2 * chunks_ + c][me];
      session_.sound[c] = session_.sound[c] && right;
      both[c] = both[c] || session_.sound[c];
    }
    session_.state->own(both, lacked_by(ownership, me));
    const auto here = told_pieces(session_);
    const Movement movement = movement_to(wanted_pieces(ownership, session_, here.size(), ring_), holdings, here, ring_);
    if (movement.is_none()) return movement.comes;
    if (const auto passed = route(ring_, *session_.ops, movement.pieces, "state_copy", -1); !passed)
      return tl::unexpected(ring_stop(passed.error()));
    if (std::ranges::find(movement.comes, true) != movement.comes.end()) session_.state->bytes_changed();
    agreed_.how = StateAgreement::How::kPieces;
    agreed_.bytes = std::ranges::max(movement.bytes);
    agreed_.receivers = static_cast<int>(std::ranges::count_if(movement.bytes, [](int64_t bytes) { return bytes > 0; }));
    return movement.comes;
  }

  // Chunks whose bytes are right are held from now on, whatever becomes of the ring: others may let go of them. Returns whether
  // all is right that this rank has.
  bool trust_what_came(const Ownership& ownership, PieceDigests& digests, const std::vector<storage::PieceDigest>& right) {
    const auto is_right = [&](size_t piece) { return !digests[piece] || *digests[piece] == right[piece]; };
    const auto lacks = lacked_by(ownership, me_in(ring_)), later = copies_to_come(ownership, me_in(ring_));
    const auto copies_at = kinds_of_told(session_).copies_at;
    for (size_t c = 0; c < chunks_; ++c) {
      const bool has = session_.state->owned()[c] && !lacks[c];
      session_.copied[c] = !later[c] && (!copies_at || is_right(*copies_at + c));
      if (later[c]) digests[copies_at.value() + c] = std::nullopt;
      session_.sound[c] = has && is_right(c) && is_right(chunks_ + c) && is_right(2 * chunks_ + c);
      if (!lacks[c]) continue;
      digests[chunks_ + c] = digests[2 * chunks_ + c] = std::nullopt;
      if (session_.state->copies_apart()) digests[c] = std::nullopt;
    }
    for (size_t piece = 0; piece < digests.size(); ++piece) {
      if (!is_right(piece)) return false;
    }
    return true;
  }

  void hold_the_step(const Offer& donor) {
    session_.state->step = agreed_.step;
    session_.lose_gradient();
    session_.refused_in_row = donor.refused_in_row;
    session_.refused_last = donor.refused_last;
    session_.has_state = true;
  }

  // All ranks say again what they hold: nobody may lack what it is to have.
  RunResult<Holdings> checked(const Ownership& ownership, PieceDigests digests) {
    const size_t pieces = digests.size();
    auto holdings = gather_holdings(ring_, session_, node_, session_.has_state, std::move(digests));
    if (!holdings) return holdings;
    if (holdings->differs) return tl::unexpected(differing(*holdings));
    const auto wanted = wanted_pieces(ownership, session_, pieces, ring_);
    for (size_t piece = 0; piece < pieces; ++piece) {
      for (size_t rank = 0; rank < current_.size(); ++rank) {
        if (wanted[piece][rank] && !holdings->has[piece][rank]) return tl::unexpected(altered(piece, static_cast<int>(rank)));
      }
    }
    return holdings;
  }

  static RunStop altered(size_t piece, int rank) {
    return fault("connection_lost", fmt::format("piece {} of the state came altered to rank {}", piece, rank), rank);
  }

  RunStop differing(const Holdings& holdings) const {
    return state_mismatch(fmt::format("after step {} {}", agreed_.step, *holdings.differs));
  }

  void settle(const Ownership& ownership) { own_what_is_said(session_, ownership, me_in(ring_), current_.size()); }

  Communicator& ring_;
  Session& session_;
  const std::string& node_;
  const size_t chunks_;
  const Session::Digested early_;
  RankSet current_;  // holds the step
  StateAgreement agreed_;
};

}  // namespace

RunResult<StateAgreement> agree_on_divided_state(Communicator& ring, Session& session, const StateSource& source,
                                                 int64_t wanted_step, StepHistory& history, const std::string& node,
                                                 const Restoring& restoring) {
  return Agreeing(ring, session, node, wanted_step).run(source, history, restoring);
}

RunResult<void> hand_over_before_leaving(Communicator& ring, Session& session, const std::string& node,
                                         const RankSet& leaving) {
  return Agreeing(ring, session, node, session.state->step).hand_over(leaving);
}

}  // namespace holdfast::worker
