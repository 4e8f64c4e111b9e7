// The parts of a divided state that ranks lack, which come to them while training goes on.
//
// After a loss or a join owners have what they had, and a chunk may be on fewer ranks than it is to be; a newcomer has no
// compute copies (Ownership). After each step some chunks go from ranks that have them to ranks that lack them, as of that
// step; from then on owners update them, and copies follow the steps as everybody's do. Copies of 16 bits go first: they are a
// seventh of what an owner takes, and a rank computes when it has all. In float32 they are the parameters, which all ranks take
// after each step anyway (compute_copies.h). Promises: all ranks take the same chunks at the same step; a chunk that came
// altered is not used (its digest is told beside it); where the call fails, what a rank had it still has. Windows are short:
// they adapt to about a tenth of a step, and where no chunk is on fewer ranks than it is to be, to kLongestWindow_s at most.
// Thread: the one that calls collectives, which is the ops' own.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "worker/collectives/communicator.h"
#include "worker/session/run_stop.h"
#include "worker/session/session.h"
#include "worker/state/divided/routes.h"

namespace holdfast::worker {

struct FillingWindows {
  int64_t first_bytes = 1 << 20;  // of the first window, and the fewest of any; at least a chunk goes in each
  bool are_paced = true;          // else each is four times the one before, however long that took: for tests
};
inline constexpr double kLongestWindow_s = 0.15;

class Filling {
 public:
  // A generation's.
  Filling(Communicator& ring, Session& session, FillingWindows windows = {});

  bool is_done() const { return next_ == items_.size(); }
  // After a step that all ranks have applied; `step_s` it took here. When with it the last is there, each rank owns from now on
  // what the target says.
  RunResult<void> fill_some(double step_s);

 private:
  // A chunk's compute copy, or the pieces that its owners alone have.
  struct Item {
    size_t chunk;
    bool is_copy;
  };
  using Window = std::span<const Item>;
  Window next_window() const;
  std::vector<size_t> pieces_of(const Item& item) const;  // by their index in told_pieces
  RankSet lacking(const Item& item) const;
  RankSet having(const Item& item) const;
  bool some_chunk_is_at_risk() const;
  RunResult<void> move(Window window);
  RunResult<void> check(Window window, double window_s, double step_s);
  void adapt(const std::vector<std::vector<std::byte>>& told);  // with the ranks' times at their beginning
  void take(Window window);
  RunResult<void> settle();

  Communicator& ring_;
  Session& session_;
  const FillingWindows windows_;
  const size_t copies_at_;   // among told_pieces
  std::vector<Item> items_;  // that somebody lacks, in the order in which they go
  size_t next_ = 0;
  int64_t window_bytes_;
};

}  // namespace holdfast::worker
