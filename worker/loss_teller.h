// Tells of a neighbour that went away, and of each neighbour once, whichever thread notices it first.
// Thread: any.
#pragma once

#include <functional>
#include <mutex>
#include <set>
#include <utility>

#include "worker/collectives/communicator.h"

namespace holdfast::worker {

class LossTeller {
 public:
  using OnLoss = std::function<void(const CollectiveError&)>;
  explicit LossTeller(OnLoss on_loss) : on_loss_(std::move(on_loss)) {}

  void tell(const CollectiveError& error) {
    {
      const std::lock_guard lock(mutex_);
      if (!told_.insert(error.suspect_rank).second) return;
    }
    on_loss_(error);
  }

 private:
  OnLoss on_loss_;
  std::mutex mutex_;
  std::set<int> told_;
};

}  // namespace holdfast::worker
