#include "worker/step/compare_states.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "worker/profile/span.h"
#include "worker/state/divided/holdings.h"

namespace holdfast::worker {

RunStop differing_states(const Disagreement& found, int rank) {
  if (found.odd.empty()) return state_mismatch(found.text);
  const bool wrong = std::ranges::find(found.odd, rank) != found.odd.end();
  RunStop stop = fault("state_diverged", found.text, wrong ? rank : found.odd.front());
  stop.state_is_wrong = wrong;
  return stop;
}

namespace {

// Of a divided state: each piece, at all ranks that have it.
RunResult<std::string> compare_pieces(TrainLoop& loop) {
  Session& session = loop.session;
  const auto found = gather_holdings(loop.ring, session, "", true, digests_of_told(session));
  if (!found) return tl::unexpected(found.error());
  if (found->differs)
    return tl::unexpected(state_mismatch(fmt::format("after step {} {}", session.state->step, *found->differs)));
  if (found->odd.empty()) return found->hash();
  const auto text = fmt::format("after step {} rank {} has pieces of the state that their owners have otherwise",
                                session.state->step, found->odd.front());
  return tl::unexpected(differing_states({text, found->odd}, loop.ring.rank()));
}

}  // namespace

RunResult<std::string> compare_states(TrainLoop& loop) {
  const Span span(SpanKind::kOther, "compare states");
  if (loop.session.is_divided()) return compare_pieces(loop);
  const std::string mine = loop.session.state->hash();
  const auto gathered = loop.ring.all_gather(std::as_bytes(std::span(mine)));
  if (!gathered) return tl::unexpected(ring_stop(gathered.error()));
  std::vector<std::string> hashes;
  for (const auto& bytes : *gathered) hashes.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (const auto found = compare_hashes(loop.session.state->step, hashes))
    return tl::unexpected(differing_states(*found, loop.ring.rank()));
  return mine;
}

}  // namespace holdfast::worker
