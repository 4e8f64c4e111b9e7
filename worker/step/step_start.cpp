#include "worker/step/step_start.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "worker/collectives/queue/lost_peer_notice.h"

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

RunResult<void> choose_first_exponents(TrainLoop& loop) {
  Session& session = loop.session;
  const int64_t step = session.state->step;
  if (!session.is_exact() || session.spec.sync_every > 1 || all_set(session.state->exponents())) return {};
  const bool gathers = session.model->copies_by_layer();  // in the middle of the pass, which all ranks make at the same time
  if (session.first_exponents_of == step && !gathers) return {};
  session.lose_gradient();
  LostPeerNotice lost_peers(loop.on_lost_peer);
  const auto tell = [&](const CollectiveError& error) { lost_peers.tell(error); };
  const auto watch = gathers ? std::jthread() : loop.ring.watch(tell);
  try {
    session.first_exponents =
        session.scattered ? session.scattered->first_exponents(step) : session.gradients->first_exponents(step);
    session.first_exponents_of = step;
  } catch (const model::Interrupted&) {
    return tl::unexpected(interrupted(loop.interrupt.reason()));
  } catch (const RingFailed& failed) {
    return tl::unexpected(ring_stop(failed.error));
  }
  return {};
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
  StepShares shares = deal_rest(microbatches, kept);
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
