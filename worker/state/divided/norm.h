// The norm of a gradient of which each rank has what it owns.
#pragma once

#include "worker/collectives/communicator.h"
#include "worker/session/session.h"

namespace holdfast::worker {

// The first of a chunk's owners tells the sum of its squares; all are added in the chunks' order, as where one rank has the
// whole gradient (model/optimizer.h), so the bits are the same. The mean is there where this rank owns it.
// One small all-gather: on success, every rank has the sums of all that it owns. Not finite if any element is not.
CollectiveResult<double> norm_of_all(Communicator& ring, Session& session);

}  // namespace holdfast::worker
