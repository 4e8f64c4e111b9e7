// Named places at which a worker can be made to fail, for tests and drills. Off unless HOLDFAST_FAULT is set.
//
//   HOLDFAST_FAULT=ACTION@POINT[:key=value…][,ACTION@POINT…]
//   ACTION   kill  SIGKILL to this process      stop  SIGSTOP to this process      slow  sleep (ms=N)
//   POINT    step (a step begins)      allreduce (gradients are about to be reduced)      commit (applied, not yet confirmed)
//            confirmed (committed)     checkpoint_write (a checkpoint is about to be written)      join (a ring is formed)
//   keys     step=N   only at this step (state before it; for commit, confirmed and checkpoint_write: after it)
//            rank=N   only on this rank
//            ms=N     for slow: how long; for kill and stop: fire so long after the point was passed, from another thread
//            while_file=PATH  only while this file is there
//            once_file=PATH   only if this file could be created: once, whatever is restarted
// Example: HOLDFAST_FAULT=kill@allreduce:step=7:rank=1:once_file=/tmp/drill
// Promises: nothing is read or compared at a point when the variable is unset.
#pragma once

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <vector>

namespace holdfast::worker {

struct FaultRule {
  enum class Action : uint8_t { kKill, kStop, kSlow } action;
  std::string point;
  int64_t step = -1, rank = -1, ms = 0;
  std::string while_file, once_file;
};

// The error names the rule and what is wrong in it.
tl::expected<std::vector<FaultRule>, std::string> parse_fault_rules(const std::string& text);
// Arms this process. Once, at start.
void arm_fault_points(std::vector<FaultRule> rules);

namespace detail {
extern bool fault_points_armed;
void pass_fault_point(const char* point, int64_t step, int rank);
}  // namespace detail

inline void fault_point(const char* point, int64_t step, int rank) {
  if (detail::fault_points_armed) [[unlikely]]
    detail::pass_fault_point(point, step, rank);
}

}  // namespace holdfast::worker
