// A rank that is one step behind takes the reduced gradient of that step and applies it itself: a third of the bytes of the
// state.
//
// When a generation breaks between a step's reduction and its confirmation, some ranks have applied the step and others have
// not. The ranks that applied it still hold the mean gradient, because no rank computes on before the step is confirmed; and
// the step is a pure function of the state before it and that gradient. A step that was refused needs not even the gradient.
// Promises: on success the rank behind holds the state after the step; the caller compares its hash.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "worker/session/run_stop.h"
#include "worker/session/session.h"

namespace holdfast::worker {

// The optimizer's part of a step: applies the mean gradient in the model, and stores the exponents of the next step (empty:
// the float reduction). Returns the norm of the gradient; if that is not finite, nothing was changed.
double apply_gradient(Session& session, std::span<const int32_t> next_exponents);
// The same where the state is divided, with what session.summed says: to what this rank owns. `norm` is that of the whole
// gradient.
void apply_to_own(Session& session, double norm);
// Leaves a step out: only the step number changes, and in float16 the loss scale. `refused_in_row` includes this step.
void apply_nothing(Session& session, int64_t refused_in_row);

// `behind` by rank: whether it takes the step; the others have applied it, and still have its gradient. `refused_in_row` is
// that of the ranks ahead, if they refused the step. Returns the bytes that this rank received.
RunResult<int64_t> catch_up(Communicator& ring, Session& session, const std::vector<bool>& behind,
                            std::optional<int64_t> refused_in_row);

}  // namespace holdfast::worker
