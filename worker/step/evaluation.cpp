#include "worker/step/evaluation.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "worker/gradients/loss_sum.h"
#include "worker/profile/span.h"
#include "worker/state/divided/owners.h"
#include "worker/step/exchange.h"
#include "worker/transport/wire_bytes.h"

namespace holdfast::worker {
namespace {

struct Part {
  int64_t loss = 0;  // fixed point
  bool finite = true;
};

// `rounds`: the most microbatches that any rank has, for parameters that all ranks gather at the same time.
Part evaluate_share(Session& session, rendezvous::Share share, int64_t rounds) {
  const model::BatchShape& shape = session.training.shape();
  const auto tokens = static_cast<size_t>(shape.tokens());
  std::vector<int32_t> inputs(tokens);
  std::vector<int32_t> targets(tokens);
  Part part;
  for (int64_t microbatch = share.first; microbatch < share.last; ++microbatch) {
    model::fill_evaluation(session.data.validation->tokens(), shape, microbatch, inputs, targets);
    const double loss = session.model->evaluate_microbatch(inputs, targets);
    part.finite &= std::isfinite(loss);
    if (std::isfinite(loss)) part.loss += loss_to_fixed(loss);
  }
  for (int64_t idle = share.last - share.first; idle < rounds; ++idle) session.model->need_forward();
  return part;
}

}  // namespace

bool evaluation_due(const Session& session) {
  const rendezvous::JobSpec& spec = session.spec;
  return spec.eval_every > 0 && session.data.validation && session.state->step % spec.eval_every == 0;
}

RunResult<double> evaluate(Session& session, Communicator& ring) {
  const Span span(SpanKind::kOther, "evaluation");
  Part mine;
  try {
    const auto computing = computing_ranks(session.ownership, static_cast<size_t>(ring.world_size()));
    const int64_t microbatches = session.spec.eval_microbatches, ranks = std::ranges::count(computing, true);
    const auto before = std::ranges::count(computing.begin(), computing.begin() + ring.rank(), true);
    const auto share = computing[static_cast<size_t>(ring.rank())]
                           ? rendezvous::deal(microbatches, static_cast<int>(ranks), static_cast<int>(before))
                           : rendezvous::Share{};
    mine = evaluate_share(session, share, (microbatches + ranks - 1) / ranks);
  } catch (const model::Interrupted&) {
    return tl::unexpected(interrupted("interrupted during an evaluation"));
  } catch (const RingFailed& failed) {
    return tl::unexpected(ring_stop(failed.error));
  }
  WireWriter out;
  out.put_i64(mine.loss);
  out.put(static_cast<uint8_t>(mine.finite ? 1 : 0));
  const auto gathered = ring.all_gather(out.take());
  if (!gathered) return tl::unexpected(ring_stop(gathered.error()));
  int64_t sum = 0;
  bool finite = true;
  for (const auto& bytes : *gathered) {
    WireReader in(bytes);
    sum += in.get_i64();
    finite &= in.get<uint8_t>() == 1 && in.done();
  }
  return finite ? loss_from_fixed(sum, session.spec.eval_microbatches) : std::numeric_limits<double>::infinity();
}

}  // namespace holdfast::worker
