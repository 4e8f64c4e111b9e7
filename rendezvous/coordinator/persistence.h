// Jobs and workers to rows of the store and back.
#pragma once

#include "rendezvous/coordinator/registry.h"
#include "rendezvous/coordinator/worker_lives.h"
#include "rendezvous/store/job_store.h"

namespace holdfast::rendezvous {

JobRow row_of(const Job& job);
WorkerRow row_of(const Worker& worker);

// Fills the empty registry with everything in the store. Every lease begins anew and lasts `grace_ms`. Throws StoreError when
// the database holds a word that this version does not know.
void load(JobStore& store, Registry& registry, WorkerLives& lives, Millis grace_ms);

}  // namespace holdfast::rendezvous
