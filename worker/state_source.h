// Where the state of a new generation comes from: the seed, a checkpoint, or the members' memory.
//
// Rank 0 reads a checkpoint; meanwhile all ranks keep exchanging a few bytes, so that a long read is not taken for a
// silent neighbour, and a fence ends it for everybody. A store that is away is tried again until then; bytes that do not
// verify are a fault that names the checkpoint.
// Promises: returns the step that agree_on_state is to bring everybody to. Nothing is held by ranks that must copy.
#pragma once

#include <functional>
#include <memory>

#include "rendezvous/protocol/messages.h"
#include "storage/checkpoint.h"
#include "worker/interrupt.h"
#include "worker/run_stop.h"
#include "worker/session.h"

namespace holdfast::worker {

// `store` as in rendezvous::StateSource; `job` "" for a folder that is itself a job's.
using StoreOpener =
    std::function<storage::Result<std::unique_ptr<storage::ObjectStore>>(const std::string& store, const std::string& job)>;

RunResult<int64_t> acquire_state(const rendezvous::StateSource& source, Communicator& ring, Session& session,
                                 const StoreOpener& open_store, Interrupt& interrupt);

}  // namespace holdfast::worker
