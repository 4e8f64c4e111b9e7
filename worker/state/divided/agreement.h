// A state that is divided among the ranks (`shard` in the job spec): each chunk has `replicas` owners, which alone keep its
// moments and whose parameters count; all apply the same sum, so a chunk outlives all of its owners but one. All ranks compute
// with compute copies (model/state/train_state.h).
//
// At the start of a generation the ranks tell what they hold, the same pure function on each rank says who owns what from now
// on (rendezvous/placement), and pieces go to whoever lacks them; what owners and newcomers lack comes later (filling.h). After
// a step each rank has updated what it owns, and takes the other copies from their owners. Promises: on success every rank
// holds what it owns and all compute copies, but for what comes later (Ownership), of the same step, checked by digest. On
// failure nothing is given up that was held: a rank lets go of a chunk when all have said that its new owners hold it. Thread:
// the one that calls collectives, which is the ops' own.
#pragma once

#include <string>

#include "worker/state/agreement.h"
#include "worker/state/divided/restore.h"
#include "worker/state/divided/routes.h"

namespace holdfast::worker {

// As agree_on_state. `node`: the machine that this rank is on. `restoring` reads a checkpoint, where that is the source.
// Refuses to go on when nobody has some chunk ("state_lost": the job goes back to a checkpoint).
RunResult<StateAgreement> agree_on_divided_state(Communicator& ring, Session& session, const rendezvous::StateSource& source,
                                                 int64_t wanted_step, StepHistory& history, const std::string& node,
                                                 const Restoring& restoring);

// Before ranks leave, after a step that all have applied: those that stay take what they would own without the `leaving`.
RunResult<void> hand_over_before_leaving(Communicator& ring, Session& session, const std::string& node, const RankSet& leaving);

}  // namespace holdfast::worker
