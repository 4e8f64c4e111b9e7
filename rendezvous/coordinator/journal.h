// The coordinator's writes: one transaction at a time, and the events that tell people what happened.
//
// Promises: all writes since the last commit() are in one transaction, so they become durable together or not at all. The
// caller answers nobody before commit() has returned. Throws StoreError where the store does.
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
  std::string job = {}, worker = {};  // "": the event is about none
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
  // Both arguments outlive this object.
  Journal(JobStore& store, const Clock& clock) : store_(store), clock_(clock) {}

  JobStore& store() { return store_; }
  JobStore& write();                                      // begins a transaction if none is open
  bool commit();                                          // whether there was anything
  int64_t transactions() const { return transactions_; }  // the number begun so far

  void record(const NewEvent& event);
  // Sets the token whose request causes the next calls; events name it. "": no token.
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
