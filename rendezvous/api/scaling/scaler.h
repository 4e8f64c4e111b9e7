// `holdfast serve --scale_hook`: a program that is called when jobs wait for workers, or workers for jobs.
//
// Promises: one call at a time, and none sooner than `every` after the one before it began; while the demand lasts it is called
// again, with the whole demand each time, so that a call that was lost costs nothing. The owner thread never waits for it. A
// call that fails is an event (scale_hook_failed), and so is the next that does not (scale_hook_recovered); a demand that is
// new is one, too. Thread: the owner's; the program is waited for on a thread of the scaler.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "rendezvous/api/scaling/demand.h"
#include "rendezvous/api/scaling/hook_process.h"
#include "rendezvous/api/turn/turn.h"
#include "rendezvous/http/work_pool.h"

namespace holdfast::rendezvous {

struct ScaleHook {
  std::string program;  // its path; "": there is none
  std::chrono::milliseconds every{30'000}, patience{60'000};
  std::chrono::milliseconds idle_for{300'000};  // so long is a worker without a job before it is told of
};

class Scaler {
 public:
  struct Counts {
    int64_t well = 0, failed = 0;
  };
  Scaler(Turn& turn, ScaleHook hook);

  void tend();                          // several times a second
  void cancel() { cancelled_ = true; }  // ends a call that is under way
  bool wanted() const { return !hook_.program.empty(); }
  const Counts& counts() const { return counts_; }
  const Demand& demand() const { return demand_; }  // at the last tend()

 private:
  void call();
  void record(const HookOutcome& outcome);

  Turn& turn_;
  const ScaleHook hook_;
  DemandWatch watch_;
  Demand demand_, told_;  // now, and of the newest event
  Counts counts_;
  std::string trouble_;  // of the newest call; "": none
  bool calling_ = false;
  std::optional<Millis> called_ms_;
  std::atomic<bool> cancelled_ = false;
  WorkPool pool_;  // last: its work uses the others
};

}  // namespace holdfast::rendezvous
