// Steps whose gradients are scattered (train_step.h): each microbatch's go to their owners before the next one's.
#include <algorithm>
#include <memory>
#include <utility>

#include "worker/drills/fault_points.h"
#include "worker/step/train_step.h"

namespace holdfast::worker {

// A GPU's layers are gathered by its own thread alone.
bool TrainStep::scatters_beside() const {
  const Session& session = loop_.session;
  return session.spec.overlap == "on" && loop_.ring.world_size() > 1 &&
         (session.ops->memory_is_host() || !session.model->copies_by_layer());
}

RunResult<void> TrainStep::scatter() {
  Session& session = loop_.session;
  loop_.gathering->take_time();  // of what was before
  std::unique_ptr<CollectiveQueue> queue;
  if (scatters_beside()) queue = std::make_unique<CollectiveQueue>(loop_.ring, lost_peers_);
  try {
    auto local = scatter_beside(queue.get());
    loop_.gathering->go_through(nullptr);
    if (!local) {
      RunStop stop = ring_stop(local.error());
      stop.told = queue != nullptr;  // by the queue, when it happened
      return tl::unexpected(std::move(stop));
    }
    local_ = std::move(*local);
  } catch (const model::Interrupted&) {
    loop_.gathering->go_through(nullptr);
    return tl::unexpected(interrupted(loop_.interrupt.reason()));
  }
  const auto in_ring = session.scattered->in_ring() + loop_.gathering->take_time();
  clock_.communicated(in_ring);
  compute_us_ = static_cast<int64_t>((clock_.step_s() - in_ring.count()) * 1e6);
  return {};
}

CollectiveResult<LocalStep> TrainStep::scatter_beside(CollectiveQueue* queue) {
  using Phase = ScatteredGradients::Phase;
  Session& session = loop_.session;
  const auto rank = static_cast<size_t>(loop_.ring.rank());
  size_t rounds = 0;
  for (const Microbatches& of_rank : shares_.to_compute) rounds = std::max(rounds, of_rank.size());
  auto watch = watch_peers();
  fault_point("step", session.state->step, loop_.ring.rank());
  watch = std::jthread();  // before the queue watches
  if (queue != nullptr) queue->start();
  loop_.gathering->go_through(session.model->copies_by_layer() ? queue : nullptr);
  bool begun = false;
  const auto on_phase = [&](Phase phase) {
    watch = std::jthread();
    const bool gathers = session.model->copies_by_layer();  // then a pass is in the ring all the time
    if (queue == nullptr && phase == Phase::kComputing && !gathers) watch = watch_peers();
    if ((phase == Phase::kComputing && !gathers) || std::exchange(begun, true)) return;
    const auto first = [step = session.state->step, rank = loop_.ring.rank()]() -> CollectiveResult<void> {
      fault_point("allreduce", step, rank);  // on the thread that has the ring
      return {};
    };
    queue != nullptr ? void(queue->add(first, "bucket to its owners")) : void(first());
  };
  auto local = session.scattered->accumulate(loop_.ring, queue, session.state->step, shares_.to_compute[rank], rounds,
                                             exponents_, on_phase);
  if (queue == nullptr) return local;
  if (const auto finished = queue->finish(); !finished) return tl::unexpected(finished.error());
  return local;
}

}  // namespace holdfast::worker
