#include "worker/state/catch_up.h"

#include <algorithm>
#include <cmath>

namespace holdfast::worker {

namespace {

void end_step(Session& session, std::span<const int32_t> next_exponents) {
  std::ranges::copy(next_exponents, session.state->exponents().begin());
  session.refused_in_row = 0;
  session.refused_last = false;
  session.applied_step = session.state->step;
}

}  // namespace

double apply_gradient(Session& session, std::span<const int32_t> next_exponents) {
  const rendezvous::JobSpec& spec = session.spec;
  const float* gradient = session.model->gradients();
  const kernels::NesterovStep outer{static_cast<float>(spec.outer_learning_rate), static_cast<float>(spec.outer_momentum)};
  const double norm = spec.sync_every > 1 ? session.state->apply_outer(outer, gradient)
                                          : session.state->apply(optimizer_config(spec), gradient);
  if (std::isfinite(norm)) end_step(session, next_exponents);
  return norm;
}

void apply_to_own(Session& session, double norm) {
  session.state->apply(optimizer_config(session.spec), session.mean_gradient(), norm);
  if (!std::isfinite(norm)) return;
  session.summed.norm = norm;
  end_step(session, session.summed.next_exponents);
}

void apply_nothing(Session& session, int64_t refused_in_row) {
  session.state->leave_out();
  session.refused_in_row = refused_in_row;
  session.refused_last = true;
  session.applied_step = session.state->step;
}

RunResult<int64_t> catch_up(Communicator& ring, Session& session, const std::vector<bool>& behind,
                            std::optional<int64_t> refused_in_row) {
  const auto me = static_cast<size_t>(ring.rank());
  if (refused_in_row) {
    if (behind[me]) apply_nothing(session, *refused_in_row);
    return 0;
  }
  if (behind[me]) session.lose_gradient();  // the buffer is written over from here on
  // On the ranks ahead the exponents in the state are already those of the next step.
  std::vector<int32_t> next(session.state->exponents().begin(), session.state->exponents().end());
  const bool is_behind = behind[me], next_is_behind = behind[(me + 1) % behind.size()];
  const std::span<std::byte> exponents = std::as_writable_bytes(std::span(next));
  std::vector<std::span<const std::byte>> outgoing;
  std::vector<std::span<std::byte>> incoming;
  if (is_behind) incoming = {exponents, std::as_writable_bytes(session.gradients->mean().overwrite())};
  if (next_is_behind && is_behind) {
    outgoing.assign(incoming.begin(), incoming.end());  // it is passed on
  } else if (next_is_behind) {
    outgoing = {exponents, std::as_bytes(session.gradients->mean().to_send())};
  }
  if (auto passed = ring.relay(outgoing, incoming); !passed) return tl::unexpected(ring_stop(passed.error()));
  if (!is_behind) return 0;
  session.gradients->mean().received();
  session.gradients->forget();
  apply_gradient(session, next);
  return static_cast<int64_t>(incoming[0].size() + incoming[1].size());
}

}  // namespace holdfast::worker
