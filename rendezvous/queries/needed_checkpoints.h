// The checkpoints of a job that other jobs still have to read: one that waits in the queue, or serves, may read long after the
// job that wrote them would have removed them.
//
// Thread: the owner's. Reads the catalogue, nothing from disk.
#pragma once

#include <cstdint>
#include <vector>

#include "rendezvous/coordinator/coordinator.h"

namespace holdfast::rendezvous {

// The steps, ascending. A job that trains needs the checkpoint that it goes on from (`resume_from`) until it has one of its
// own; the weights that it began with (`init_from`) it needs until it ends, for each worker that prepares for it, and so does
// one that serves, unless it follows the newest.
std::vector<int64_t> checkpoints_others_need(const Coordinator& state, const Job& job);

}  // namespace holdfast::rendezvous
