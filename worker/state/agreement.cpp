#include "worker/state/agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <map>
#include <optional>
#include <vector>

#include "worker/state/catch_up.h"
#include "worker/state/offers.h"
#include "worker/state/pieces.h"

namespace holdfast::worker {
namespace {

// Checks a state that was taken: if its hash is not the donor's, this rank holds no state.
RunResult<void> take_state(Session& session, const Offer& source, int donor) {
  session.state->bytes_changed();
  const std::string hash = session.state->hash();
  if (hash != source.hash) {
    return tl::unexpected(state_mismatch("the state of step " + std::to_string(source.step) + " taken from rank " +
                                             std::to_string(donor) + " hashes to " + hash + ", there it is " + source.hash,
                                         donor));
  }
  session.has_state = true;
  return {};
}

// The rank whose state all take: the first that holds it. With the exact reduction a step has one state only: if ranks hold
// two, one of them has gone wrong, the one that fewer than half hold.
RunResult<size_t> find_donor(const std::vector<Offer>& offers, int64_t wanted_step, bool exact) {
  std::map<std::string, std::vector<size_t>> holders;
  size_t count = 0;
  for (size_t rank = 0; rank < offers.size(); ++rank) {
    if (offers[rank].step != wanted_step) continue;
    holders[offers[rank].hash].push_back(rank);
    ++count;
  }
  if (holders.empty()) {
    return tl::unexpected(state_mismatch("no rank holds the state of step " + std::to_string(wanted_step) +
                                         "; by rank they hold: " + steps_held(offers)));
  }
  std::optional<size_t> first;
  for (const auto& [_, ranks] : holders) {
    if (2 * ranks.size() > count) return ranks.front();
    if (!first || ranks.front() < *first) first = ranks.front();
  }
  if (!exact) return *first;
  const auto& one = *holders.begin();
  const auto& other = *std::next(holders.begin());
  return tl::unexpected(state_mismatch("after step " + std::to_string(wanted_step) + " rank " +
                                       std::to_string(one.second.front()) + " holds the state " + one.first + " and rank " +
                                       std::to_string(other.second.front()) + " " + other.first +
                                       ", and no more than half hold either"));
}

bool holds(const Offer& offer, const Offer& donor) {
  return offer.step == donor.step && offer.hash == donor.hash;
}

// Whether every rank that lacks the state lacks one step only, and every other rank still has the gradient of that step.
bool can_catch_up(const std::vector<Offer>& offers, const Offer& donor) {
  return std::ranges::all_of(offers, [&](const Offer& offer) {
    return holds(offer, donor) ? offer.applied_step == donor.step : offer.step == donor.step - 1;
  });
}

// The ranks that are a step behind apply it. Returns, by rank, which ranks hold the donor's state then; a rank whose state
// was wrong before does not.
RunResult<std::vector<bool>> hand_over_gradient(Communicator& ring, Session& session, const Offer& donor,
                                                const std::vector<bool>& held, StateAgreement& agreed) {
  agreed.how = StateAgreement::How::kGradient;
  std::vector<bool> behind = held;
  behind.flip();
  agreed.refused = donor.refused_last;
  agreed.bytes = agreed.refused ? 0 : session.model->table().total * static_cast<int64_t>(sizeof(float));
  const auto done = catch_up(ring, session, behind, agreed.refused ? std::optional(donor.refused_in_row) : std::nullopt);
  if (!done) return tl::unexpected(done.error());
  if (agreed.received) {
    session.has_state = false;
    session.state->bytes_changed();
  }
  const std::byte right{!agreed.received || session.state->hash() == donor.hash};
  const auto told = ring.all_gather({&right, 1});
  if (!told) return tl::unexpected(ring_stop(told.error()));
  std::vector<bool> holds_now;
  for (const auto& word : *told) holds_now.push_back(word.size() == 1 && word[0] != std::byte{0});
  return holds_now;
}

RunResult<void> hand_over_pieces(Communicator& ring, Session& session, const Offer& donor, const std::vector<bool>& held,
                                 StateAgreement& agreed) {
  agreed.how = StateAgreement::How::kPieces;
  const bool takes = !held[static_cast<size_t>(ring.rank())];
  if (takes) session.has_state = false;
  model::HostState state(*session.state, *session.ops);
  state.fetch();
  auto done = copy_pieces(ring, cut_into_pieces(state), held);
  if (takes) state.put();  // also after a copy that broke off: the next copy goes on from there
  if (!done) return tl::unexpected(done.error());
  agreed.bytes = done->bytes_most;
  agreed.fetched_again = std::move(done->fetched_again);
  if (!takes) return {};
  session.state->step = donor.step;
  session.lose_gradient();
  session.refused_in_row = donor.refused_in_row;
  session.refused_last = donor.refused_last;
  return take_state(session, donor, agreed.donor);
}

RunResult<void> hand_over(Communicator& ring, Session& session, const std::vector<Offer>& offers, StateAgreement& agreed) {
  const Offer& donor = offers[static_cast<size_t>(agreed.donor)];
  std::vector<bool> held;
  for (const Offer& offer : offers) held.push_back(holds(offer, donor));
  if (can_catch_up(offers, donor)) {
    auto holds_now = hand_over_gradient(ring, session, donor, held, agreed);
    if (!holds_now) return tl::unexpected(holds_now.error());
    held = std::move(*holds_now);
    if (held[static_cast<size_t>(ring.rank())]) session.has_state = true;
    if (std::ranges::find(held, false) == held.end()) return {};
  }
  return hand_over_pieces(ring, session, donor, held, agreed);
}

}  // namespace

RunResult<StateAgreement> agree_on_state(Communicator& ring, Session& session, int64_t wanted_step, StepHistory& history) {
  const auto begin = std::chrono::steady_clock::now();
  Offer mine = offer_of(session, history);
  if (session.has_state) mine.hash = session.state->hash();
  const auto offers = gather_offers(ring, mine);
  if (!offers) return tl::unexpected(offers.error());
  const auto donor = find_donor(*offers, wanted_step, session.is_exact());
  if (!donor) return tl::unexpected(donor.error());

  const Offer& found = (*offers)[*donor];
  StateAgreement agreed{.step = wanted_step, .hash = found.hash, .donor = static_cast<int>(*donor), .fetched_again = {}};
  for (const Offer& offer : *offers) {
    ++(holds(offer, found) ? agreed.donors : agreed.receivers);
    if (offer.step == wanted_step && !holds(offer, found)) ++agreed.overruled;
  }
  agreed.received = !holds(mine, found);
  if (agreed.receivers > 0) {
    if (auto done = hand_over(ring, session, *offers, agreed); !done) return tl::unexpected(done.error());
  }
  merge_history(*offers, wanted_step, history);
  agreed.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return agreed;
}

std::string in_words(const StateAgreement& agreed, int world_size) {
  if (agreed.how == StateAgreement::How::kNothing) return "";
  const double megabytes = static_cast<double>(agreed.bytes) / 1e6;
  std::string text =
      agreed.how == StateAgreement::How::kGradient && agreed.refused
          ? fmt::format("{} of {} workers had not heard that step {} is left out: they leave it out, too", agreed.receivers,
                        world_size, agreed.step)
      : agreed.how == StateAgreement::How::kGradient && agreed.divided
          ? fmt::format(
                "{} of {} workers missed the end of step {}: they had its gradient, and took its norm from those that "
                "had applied it",
                agreed.receivers, world_size, agreed.step)
      : agreed.how == StateAgreement::How::kGradient
          ? fmt::format(
                "{} of {} workers missed the end of step {}: its reduced gradient came from those that had applied it "
                "({:.1f} MB in {:.2f} s)",
                agreed.receivers, world_size, agreed.step, megabytes, agreed.seconds)
          : fmt::format("{} of {} workers took {} of step {} from the {} that held it: {:.1f} MB{} in {:.2f} s, hash {}",
                        agreed.receivers, world_size, agreed.divided ? "their parts of the state" : "the state", agreed.step,
                        agreed.donors, megabytes, agreed.divided ? " at most" : "", agreed.seconds, agreed.hash);
  if (agreed.later > 0)
    text += fmt::format(
        "; {} of them {} the parameters to compute with after steps, a bit at a time, and no microbatches until then",
        agreed.later, agreed.later == 1 ? "takes" : "take");
  if (agreed.overruled > 0)
    text += fmt::format("; {} of them held another state of that step, and most ranks agreed on this one", agreed.overruled);
  if (!agreed.fetched_again.empty())
    text += fmt::format("; {} of its pieces arrived altered and were fetched again", agreed.fetched_again.size());
  return text;
}

}  // namespace holdfast::worker
