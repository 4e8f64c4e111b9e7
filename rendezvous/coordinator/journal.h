// The coordinator's writes: one transaction at a time, and the events that tell people what happened.
//
// Promises: everything written since the last commit() is in one transaction, so it is durable whole or not at all. Nobody is
// to be answered before commit() has returned. Throws StoreError where the store does.
// Thread: the owner.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/coordinator/clock.h"
#include "rendezvous/membership/state.h"
#include "rendezvous/store/job_store.h"

namespace holdfast::rendezvous {

struct NewEvent {
  std::string kind, message;
  std::string job = {}, worker = {};  // "": of none
  int64_t generation = 0;
};

struct StateChange {
  std::string job;
  JobState from, to;
  std::string reason;
  int64_t time_ms = 0;
};

class Journal {
 public:
  // Both outlive it.
  Journal(JobStore& store, const Clock& clock) : store_(store), clock_(clock) {}

  JobStore& store() { return store_; }
  JobStore& write();  // begins a transaction if none is open
  void commit();
  int64_t transactions() const { return transactions_; }  // begun so far

  void record(const NewEvent& event);
  // The token in whose name the next calls are made; events name it. "": nobody's.
  void set_actor(const std::string& actor) { actor_ = actor; }
  const std::map<std::string, int64_t>& event_counts() const { return event_counts_; }  // by kind, since this object began

  void note_state_change(StateChange change) { state_changes_.push_back(std::move(change)); }
  // The jobs' changes of state since the last call, oldest first.
  std::vector<StateChange> take_state_changes() { return std::exchange(state_changes_, {}); }

 private:
  JobStore& store_;
  const Clock& clock_;
  bool in_transaction_ = false;
  int64_t transactions_ = 0;
  std::string actor_;
  std::map<std::string, int64_t> event_counts_;
  std::vector<StateChange> state_changes_;
};

}  // namespace holdfast::rendezvous
