// The number of microbatches that each rank computes in a step, when some ranks are slower than others.
//
// Every rank tells how long its own microbatches took; from the same numbers every rank draws the same conclusion. A step
// lasts as long as its slowest rank: when another dealing would have been clearly quicker over a whole window of steps, it is
// used from the next step on. The bits do not depend on which rank computes which microbatch, so nothing else changes (the
// float reduction sums in another order, as after a change of the world size).
// Promises: pure; integers only, so that no two ranks round differently. Every rank keeps at least one microbatch, else no
// rank would notice that it got quicker again.
// Refuses: to deal anew without a clear gain (LoadBalancer::kClearGain).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "worker/step/shares.h"

namespace holdfast::worker {

class LoadBalancer {
 public:
  static constexpr size_t kWindow = 8;       // steps that are compared by their median
  static constexpr size_t kWarmUpSteps = 2;  // not counted: buffers are touched and kernels built for the first time
  // Another dealing is used where a step then takes less than this part of what it takes, in percent; an uneven one not at all
  // where the even one takes at most kEvenEnough percent of its time.
  static constexpr int64_t kClearGain = 85, kEvenEnough = 105;

  LoadBalancer(int64_t microbatches, int world_size);
  // `computing` by rank, at least one: those that can compute. Others are dealt nothing.
  LoadBalancer(int64_t microbatches, std::vector<bool> computing);

  const std::vector<bool>& computing() const { return computing_; }

  // The shares of the next step, if no part of it was kept from an earlier try.
  const StepShares& shares() const { return shares_; }

  struct Slow {
    int rank;
    int64_t us, median_us;      // for one microbatch: this rank's, and the median over the ranks
    int64_t before, now, even;  // microbatches in a step: until now, from now on, and where nobody is slow
  };
  struct Change {
    bool changed = false;
    std::vector<Slow> slow;  // empty: the dealing is even again
  };
  // Takes in a step that was dealt as `computed`: `compute_us`, by rank, is how long its microbatches took.
  Change observe(const StepShares& computed, std::span<const int64_t> compute_us);

 private:
  StepShares deal() const;
  std::vector<int64_t> medians() const;
  Change deal_anew(const std::vector<int64_t>& us);

  int64_t microbatches_;
  std::vector<bool> computing_;
  std::vector<size_t> ranks_;           // that can compute, ascending; what follows is by index in these
  std::vector<int64_t> even_, counts_;  // microbatches
  StepShares shares_;
  size_t warm_up_left_ = kWarmUpSteps;
  std::vector<std::vector<int64_t>> window_;  // by step: microseconds for one microbatch
};

// "w3 (rank 2) takes 2.1 times as long …: it computes 2 microbatches of a step instead of 3". `names` by rank, may be empty;
// `exact` is the job's reduction.
std::string in_words(const LoadBalancer::Change& change, std::span<const std::string> names, bool exact);

}  // namespace holdfast::worker
