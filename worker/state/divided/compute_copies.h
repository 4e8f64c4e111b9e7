// Compute copies (model/state/train_state.h) after a step: ranks take those of chunks that they do not own from the chunks'
// owners.
//
// In float32 they go as they are. In jobs of 16 bits a copy goes as its differences from the copy before the step
// (worker/sharding/differences.h), which everybody has: about a quarter of its bytes. Matrices alone have 16-bit copies; the
// rest (wpe, LayerNorm, biases: less than a hundredth) goes as it is. A newcomer to whom copies are still to come
// (Ownership::without_copy) has them all after the first step in float32, and takes no differences without the copy of before.
// Promises: where the call fails, a chunk's copy is the one
// before the step or the one after it. Thread: the one that calls collectives, which is the ops' own.
#pragma once

#include "worker/session/run_stop.h"
#include "worker/session/session.h"

namespace holdfast::worker {

// Called when this rank has applied a step to what it owns, and ranks have the copies of the step before.
RunResult<void> share_copies(Communicator& ring, Session& session);
// Called when owners alone have theirs, and nobody those of before: then all ranks have all. Where copies do not stay it does
// nothing.
CollectiveResult<void> share_copies_as_they_are(Communicator& ring, Session& session);

}  // namespace holdfast::worker
