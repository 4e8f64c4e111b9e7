// How many workers jobs wait for, and which workers nobody needs: what a program is told that starts and ends machines.
//
// A job counts when it has lacked workers to begin or to go on for kLacksFor, so that a worker which comes back by itself
// starts no machine. A worker counts that has had no job for a given time, and that is not on its way out. Thread: the owner's.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "rendezvous/coordinator/coordinator.h"

namespace holdfast::rendezvous {

struct Demand {
  int64_t missing = 0;            // workers, over all jobs that wait for some
  std::vector<std::string> idle;  // the workers' names, sorted
  bool any() const { return missing > 0 || !idle.empty(); }
  bool operator==(const Demand&) const = default;
};

class DemandWatch {
 public:
  static constexpr Millis kLacksFor = 5000;

  // Notes since when workers are idle; call it several times a second.
  void look(const Coordinator& state, Millis now_ms);
  Demand demand(const Coordinator& state, Millis now_ms, Millis idle_ms) const;
  // The same with its particulars, as ops/MANUAL.md describes them.
  nlohmann::json in_full(const Coordinator& state, Millis now_ms, Millis idle_ms) const;

 private:
  std::map<std::string, Millis> idle_since_;  // by incarnation
};

}  // namespace holdfast::rendezvous
