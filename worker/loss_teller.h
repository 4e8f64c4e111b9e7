// Tells of a neighbour that went away, and of each neighbour once, whichever thread notices it first; once more when a later
// sign says that it ended, which the first did not: the service then need not wait for its answer.
// Thread: any.
#pragma once

#include <functional>
#include <map>
#include <mutex>
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
      const auto [told, first] = told_.try_emplace(error.suspect_rank, error.ended);
      if (!first && (told->second || !error.ended)) return;
      told->second = error.ended;
    }
    on_loss_(error);
  }

 private:
  OnLoss on_loss_;
  std::mutex mutex_;
  std::map<int, bool> told_;  // by suspect: whether it was said to have ended
};

}  // namespace holdfast::worker
