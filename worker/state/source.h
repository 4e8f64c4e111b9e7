// The source of a new generation's state: the seed, a checkpoint, or the members' memory.
//
// Rank 0 reads a checkpoint; of one of a divided state each rank reads its parts, once the ranks have agreed on them
// (divided/agreement.h). Meanwhile all ranks keep exchanging a few bytes, so that a long read is not taken for a silent
// neighbour, and so that a fence ends it on all ranks. A store that is away, a place that is not there and one without any
// checkpoint are tried again until then; bytes that do not verify are a fault that names the checkpoint.
// Promises: returns the step to which agree_on_state is to bring all ranks. Ranks that must copy hold no state afterwards.
#pragma once

#include <functional>
#include <memory>

#include "rendezvous/protocol/messages.h"
#include "storage/checkpoint.h"
#include "worker/link/interrupt.h"
#include "worker/session/run_stop.h"
#include "worker/session/session.h"

namespace holdfast::worker {

// `store` and `copy` as in rendezvous::StateSource; `job` "" for a folder that is itself a job's.
using StoreOpener = std::function<storage::Result<std::unique_ptr<storage::ObjectStore>>(
    const std::string& store, const std::string& job, const std::string& copy)>;

// One try to read something of a checkpoint, on a thread of its own.
using ReadOnce = std::function<storage::Result<storage::Manifest>(storage::ObjectStore&)>;
// A rank whose store is away.
struct WhenAway {
  std::string job;  // that goes on: a place of its own that is missing or empty is away; another's is not there
  // Called, on that thread, once when it does not answer and once when it is missing; words for people.
  std::function<void(const std::string& text)> tell;
  std::function<bool()> leaves;  // whether this worker was told to end: it does not wait then
};
// Reads until it succeeds, or cannot; all ranks call it, and it returns when all have read. `read` null: this rank reads
// nothing.
RunResult<storage::Manifest> read_beside_the_ring(const rendezvous::StateSource& source, Communicator& ring,
                                                  const StoreOpener& open_store, Interrupt& interrupt, const ReadOnce& read,
                                                  const WhenAway& when_away);

RunResult<int64_t> acquire_state(const rendezvous::StateSource& source, Communicator& ring, Session& session,
                                 const StoreOpener& open_store, Interrupt& interrupt, const WhenAway& when_away);

}  // namespace holdfast::worker
