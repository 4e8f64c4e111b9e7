// Named places at which a worker can be made to fail, for tests and drills. Off unless HOLDFAST_FAULT is set.
//
//   HOLDFAST_FAULT=ACTION@POINT[:key=value…][,ACTION@POINT…]
//   ACTION   kill  SIGKILL to this process      stop  SIGSTOP to this process      slow  sleep (ms=N)
//            mark  makes file=PATH and waits until somebody removes it, ms=N at most: the moment is theirs
//            note  adds a line "SECONDS_SINCE_1970 POINT STEP RANK" to file=PATH
//   POINT    step (a step begins)
//            allreduce (gradients are about to be reduced; with overlap while the last microbatch is computed)
//            reduce_scatter, all_gather (a chunk of gradients was added up, or taken as it is; the reduction goes on)
//            norm (of a divided state: this rank has the sums that it owns, and is about to tell their squares)
//            commit (applied, not yet confirmed)      confirmed (committed)
//            checkpoint_write (a checkpoint is about to be written)
//            checkpoint_object (a shard or the manifest is about to go to the store, while training goes on)
//            rendezvous (a ring is about to be formed)      join (a ring is formed)
//            state_copy (a piece of the state is about to be passed on)
//            share (likewise, between the ranks of a divided state: of parameters after a step, of moments for a checkpoint)
//            gather (likewise, of the parameters that a pass needs next)
//   keys     step=N   only at this step (state before it; for commit, confirmed, checkpoint_write and share: after it)
//            rank=N   only on this rank. checkpoint_object knows neither step nor rank: rank 0 writes
//            pass=N   only the N-th time, counted from 1 where all of this holds
//            ms=N     for slow: how long; for mark: 60000 if it is not given; for kill and stop: fire so long after the
//                     point was passed, from another thread
//            while_file=PATH  only while this file is there
//            once_file=PATH   only if this file could be created: once, whatever is restarted
//            file=PATH        for mark and note, which need it
// Example: HOLDFAST_FAULT=kill@allreduce:step=7:rank=1:once_file=/tmp/drill
// Promises: nothing is read or compared at a point when the variable is unset.
#pragma once

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <vector>

namespace holdfast::worker {

struct FaultRule {
  enum class Action : uint8_t { kKill, kStop, kSlow, kMark, kNote } action;
  std::string point;
  int64_t step = -1, rank = -1, pass = 0;  // 0: each time
  int64_t ms = 0;
  std::string while_file, once_file, file;
};

// The error names the rule and what is wrong in it.
tl::expected<std::vector<FaultRule>, std::string> parse_fault_rules(const std::string& text);
// Arms this process. Once, at start.
void arm_fault_points(std::vector<FaultRule> rules);

namespace detail {
extern bool fault_points_armed;
void pass_fault_point(const char* point, int64_t step, int rank);
void pass_fault_point_within(const char* point);
}  // namespace detail

inline bool fault_points_armed() {
  return detail::fault_points_armed;
}

inline void fault_point(const char* point, int64_t step, int rank) {
  if (detail::fault_points_armed) [[unlikely]]
    detail::pass_fault_point(point, step, rank);
}

// For places that do not know step and rank: uses those of the point that this thread passed last.
inline void fault_point_within(const char* point) {
  if (detail::fault_points_armed) [[unlikely]]
    detail::pass_fault_point_within(point);
}

}  // namespace holdfast::worker
