// The rule of states that count no more: those that went bad in memory, as nothing else makes states differ, and divided ones
// of which parts are gone.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>

#include "rendezvous/protocol/messages.h"
#include "tests/sim/violation.h"
#include "worker/step/exchange.h"

namespace holdfast::sim {

class BadMemory {
 public:
  // The state of a member of this generation was altered.
  void altered(const rendezvous::Directive& join) { in_.insert({join.job, join.generation, join.secret}); }

  // The members have found this. `found.odd` empty: they trust no state of this generation.
  void states_differ(const rendezvous::Directive& join, const worker::Disagreement& found) {
    if (!in_.contains({join.job, join.generation, join.secret}))
      broken("generation {} of {} cannot agree on a state: {}", join.generation, join.job, found.text);
    if (found.odd.empty()) distrusted_[join.job] = std::max(distrusted_[join.job], join.generation);
  }

  // Parts of a divided state are gone with all who had them.
  void lost(const rendezvous::Directive& join) { distrusted_[join.job] = std::max(distrusted_[join.job], join.generation); }

  // Whether no state of this generation was trusted, and it is the newest such one of the job.
  bool distrusted(const std::string& job, int64_t generation) const {
    const auto found = distrusted_.find(job);
    return found != distrusted_.end() && found->second == generation;
  }

 private:
  std::set<std::tuple<std::string, int64_t, std::string>> in_;  // job, generation, secret
  std::map<std::string, int64_t> distrusted_;                   // job -> generation
};

}  // namespace holdfast::sim
