// A divided state from a checkpoint: each rank reads what it owns.
//
// Promises: no rank takes memory for more than its own parts, and a shard at a time. Thread: the one that calls collectives,
// which is the ops' own.
#pragma once

#include <functional>

#include "storage/checkpoint.h"
#include "worker/session/run_stop.h"
#include "worker/session/session.h"
#include "worker/state/source.h"

namespace holdfast::worker {

// Runs a reading beside the ring (read_beside_the_ring).
using Restoring = std::function<RunResult<storage::Manifest>(const ReadOnce&)>;

// The chunks that this rank owns, and what belongs to no chunk, have the bytes of the checkpoint at `step`. All ranks call it.
// `verifies`: this rank reads every byte of a checkpoint of format version 1, whose hash is not made of pieces.
RunResult<storage::Manifest> restore_own(Session& session, const Restoring& restoring, int64_t step, bool verifies);

}  // namespace holdfast::worker
