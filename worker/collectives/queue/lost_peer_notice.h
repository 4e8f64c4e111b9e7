// Tells, through a callback, about a lost neighbour: one whose connection ended.
// Promises: each neighbour is told of once, whichever thread notices it first; and once more if a later sign says that its
// process ended, which the first sign did not: the service then need not wait for the neighbour's answer.
// Thread: any.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <utility>

#include "worker/collectives/communicator.h"

namespace holdfast::worker {

class LostPeerNotice {
 public:
  using OnLostPeer = std::function<void(const CollectiveError&)>;
  explicit LostPeerNotice(OnLostPeer on_lost_peer) : on_lost_peer_(std::move(on_lost_peer)) {}

  void tell(const CollectiveError& error) {
    {
      const std::lock_guard lock(mutex_);
      const auto [told, first] = told_.try_emplace(error.suspect_rank, error.ended);
      if (!first && (told->second || !error.ended)) return;
      told->second = error.ended;
    }
    on_lost_peer_(error);
  }

 private:
  OnLostPeer on_lost_peer_;
  std::mutex mutex_;
  std::map<int, bool> told_;  // by suspect rank: whether it was said to have ended
};

}  // namespace holdfast::worker
