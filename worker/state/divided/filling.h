// The parts of a divided state that owners lack, which come to them while training goes on.
//
// After a loss or a join owners have what they had, and a chunk may be on fewer ranks than it is to be (Ownership). After each
// step some chunks go from ranks that have them to owners that lack them, as of that step, and from then on these update them.
// Promises: all ranks take the same chunks at the same step; a chunk that came altered is not used (its digest is told beside
// it); where the call fails, what a rank had it still has. Windows are short: they adapt to about a tenth of a step.
// Thread: the one that calls collectives, which is the ops' own.
#pragma once

#include <cstdint>
#include <vector>

#include "worker/collectives/communicator.h"
#include "worker/session/run_stop.h"
#include "worker/session/session.h"

namespace holdfast::worker {

inline constexpr int64_t kFirstWindowBytes = 1 << 20;

class Filling {
 public:
  // A generation's. `first_window`: the bytes of the first window, and the fewest of any; at least a chunk goes in each.
  Filling(Communicator& ring, Session& session, int64_t first_window = kFirstWindowBytes);

  bool is_done() const { return next_ == chunks_.size(); }
  // After a step that all ranks have applied; `step_s` it took here. When with it the last is there, each rank owns from now on
  // what the target says.
  RunResult<void> fill_some(double step_s);

 private:
  struct Window {
    std::vector<size_t> chunks;
    int64_t bytes = 0;
  };
  Window next_window() const;
  // Of a chunk, those pieces that not everybody has.
  std::vector<size_t> pieces_of(size_t chunk) const;
  RunResult<void> move(const Window& window);
  RunResult<void> check(const Window& window, double window_s, double step_s);
  void adapt(const std::vector<std::vector<std::byte>>& told);  // with the ranks' times at their beginning
  void take(const Window& window);
  RunResult<void> settle();

  Communicator& ring_;
  Session& session_;
  const int64_t first_window_;
  std::vector<size_t> chunks_;  // that somebody lacks, in the order in which they go
  size_t next_ = 0;
  int64_t window_bytes_;
};

}  // namespace holdfast::worker
