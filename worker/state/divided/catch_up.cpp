#include "worker/state/divided/catch_up.h"

#include <algorithm>

#include "worker/state/catch_up.h"

namespace holdfast::worker {

RankSet catch_up_to(Session& session, int rank, const std::vector<Offer>& offers, int64_t step) {
  // Others may hold the step from copies, and know nothing of how it came about.
  const auto donor =
      std::ranges::find_if(offers, [&](const Offer& offer) { return offer.step == step && offer.applied_step == step; });
  const bool refused = donor != offers.end() && donor->refused_last;
  const bool knows_the_norm = donor != offers.end() && donor->summed_step == step && !refused;
  RankSet now;
  for (size_t r = 0; r < offers.size(); ++r) {
    const bool catches_up = offers[r].step == step - 1 && (refused || (knows_the_norm && offers[r].summed_step == step));
    now.push_back(offers[r].step == step || catches_up);
    if (!catches_up || r != static_cast<size_t>(rank)) continue;
    if (refused) {
      apply_nothing(session, donor->refused_in_row);
    } else {
      apply_to_own(session, donor->norm);
      session.state->bytes_changed();
    }
    session.forget_sums();
  }
  return now;
}

}  // namespace holdfast::worker
