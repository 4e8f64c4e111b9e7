#include "worker/step/step_start.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "worker/collectives/queue/lost_peer_notice.h"
#include "worker/state/divided/owners.h"

namespace holdfast::worker {

bool all_set(std::span<const int32_t> exponents) {
  return std::ranges::find(exponents, model::TrainState::kUnsetExponent) == exponents.end();
}

std::vector<int32_t> exponents_of(Session& session) {
  if (!session.is_exact()) return {};
  const auto exponents = session.state->exponents();
  if (!all_set(exponents) && session.first_exponents_of == session.state->step) return session.first_exponents;
  return {exponents.begin(), exponents.end()};
}

namespace {

// The first rank that computes tells them to those that cannot.
RunResult<void> tell_first_exponents(TrainLoop& loop, const RankSet& computing) {
  if (std::ranges::find(computing, false) == computing.end()) return {};
  Session& session = loop.session;
  const auto teller = static_cast<size_t>(std::ranges::find(computing, true) - computing.begin());
  session.first_exponents.resize(session.model->table().entries.size());
  std::vector<std::span<std::byte>> blocks(computing.size());
  blocks[teller] = std::as_writable_bytes(std::span(session.first_exponents));
  if (const auto told = loop.ring.all_gather_into(blocks); !told) return tl::unexpected(ring_stop(told.error()));
  session.first_exponents_of = session.state->step;
  return {};
}

}  // namespace

RunResult<void> choose_first_exponents(TrainLoop& loop) {
  Session& session = loop.session;
  const int64_t step = session.state->step;
  if (!session.is_exact() || session.spec.sync_every > 1 || all_set(session.state->exponents())) return {};
  const bool gathers = session.model->copies_by_layer();  // in the middle of the pass, which all ranks make at the same time
  const RankSet computing = computing_ranks(session.ownership, static_cast<size_t>(loop.ring.world_size()));
  const bool computes = computing[static_cast<size_t>(loop.ring.rank())];
  if (!computes || (session.first_exponents_of == step && !gathers)) return tell_first_exponents(loop, computing);
  session.lose_gradient();
  LostPeerNotice lost_peers(loop.on_lost_peer);
  const auto tell = [&](const CollectiveError& error) { lost_peers.tell(error); };
  auto watch = gathers ? std::jthread() : loop.ring.watch(tell);
  try {
    session.first_exponents =
        session.scattered ? session.scattered->first_exponents(step) : session.gradients->first_exponents(step);
    session.first_exponents_of = step;
    watch = std::jthread();  // it looks at the connections, which the ring uses next
  } catch (const model::Interrupted&) {
    return tl::unexpected(interrupted(loop.interrupt.reason()));
  } catch (const RingFailed& failed) {
    return tl::unexpected(ring_stop(failed.error));
  }
  return tell_first_exponents(loop, computing);
}

RunResult<StepShares> agree_on_shares(TrainLoop& loop) {
  Session& session = loop.session;
  const int64_t microbatches = session.spec.dealt_units();
  const auto mine = session.kept_microbatches(exponents_of(session));
  const auto gathered = loop.ring.all_gather(encode_kept(mine));
  if (!gathered) return tl::unexpected(ring_stop(gathered.error()));
  std::vector<Microbatches> kept;
  for (const auto& bytes : *gathered) {
    auto list = decode_kept(bytes, microbatches);
    if (!list) return tl::unexpected(fault("handshake_failed", list.error()));
    kept.push_back(std::move(*list));
  }
  StepShares shares = deal_rest(microbatches, kept, computing_ranks(session.ownership, kept.size()));
  if (!shares.keeps[static_cast<size_t>(loop.ring.rank())]) session.forget_sums();
  if (shares.kept > 0 && loop.ring.rank() == 0) {
    const auto text = fmt::format("step {}: {} of {} {} are kept, {} {} computed", session.state->step + 1, shares.kept,
                                  microbatches, session.spec.sync_every > 1 ? "replicas' local steps" : "microbatches",
                                  microbatches - shares.kept, microbatches - shares.kept == 1 ? "is" : "are");
    spdlog::info("{}", text);
    loop.outbox.event(session.job, "microbatches_kept", text);
  }
  return shares;
}

}  // namespace holdfast::worker
