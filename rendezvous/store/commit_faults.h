// Commits at which the service can be made to die, for tests and drills. Off unless HOLDFAST_FAULT is set.
//
//   HOLDFAST_FAULT=kill@POINT[:key=value…][,kill@POINT…]
//   POINT    before_commit (all is written, nothing is durable)      after_commit (durable, nobody is answered yet)
//   keys     with=WORD  only commits that hold a row of this kind (job, worker, generation, checkpoint, step, ledger,
//                       idempotency, incarnation, refusal, log) or an event of this kind (generation_formed …)
//            n=N        the N-th such commit of this process; 1 unless said
//            once_file=PATH   only if this file could be created: once, however often the service is restarted
// Example: HOLDFAST_FAULT=kill@after_commit:with=generation:n=2:once_file=/tmp/drill
// Promises: nothing is read or compared at a commit when the variable is unset.
#pragma once

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "rendezvous/store/watched_store.h"

namespace holdfast::rendezvous {

struct CommitFault {
  StoreMoment::When when = StoreMoment::When::kBeforeCommit;
  std::string with;  // "": any commit
  int64_t n = 1;
  std::string once_file;
};

// The error names the rule and what is wrong in it.
tl::expected<std::vector<CommitFault>, std::string> parse_commit_faults(const std::string& text);

// Counts the commits that each fault is about; those whose turn has come are returned, once.
class CommitFaults {
 public:
  explicit CommitFaults(std::vector<CommitFault> faults);
  std::vector<const CommitFault*> due(const StoreMoment& moment);

 private:
  struct Counted {
    CommitFault fault;
    int64_t seen = 0;
  };
  std::vector<Counted> faults_;
};

// SIGKILL to this process when one is due; for WatchedStore.
WatchedStore::OnMoment die_at(std::vector<CommitFault> faults);

}  // namespace holdfast::rendezvous
