// The reduction of one step, bucket after bucket on a thread of its own, while the train thread computes what comes later.
//
// Between start() and the return of finish() the ring belongs to that thread. While it has no bucket to reduce it watches the
// neighbours' connections.
// Promises: buckets are reduced in their order, as on every rank; a lost neighbour is told of when it is noticed, without
// waiting for the train thread, and once; a failure ends the reduction, and finish() returns it. An object that is destroyed
// unfinished aborts the ring, because the missing buckets can never be reduced: its thread ends at once.
// Thread: one thread makes it, starts it, says which buckets are ready and finishes it; `reduce` and the notice of lost peers
// run on other threads.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

#include "worker/collectives/communicator.h"
#include "worker/gradients/lost_peer_notice.h"

namespace holdfast::worker {

class OverlappedReduction {
 public:
  using Reduce = std::function<CollectiveResult<void>(size_t bucket)>;
  // `ring` and `lost_peers` outlive it.
  OverlappedReduction(Communicator& ring, size_t buckets, Reduce reduce, LostPeerNotice& lost_peers);
  ~OverlappedReduction();
  OverlappedReduction(const OverlappedReduction&) = delete;
  OverlappedReduction& operator=(const OverlappedReduction&) = delete;

  // No collective and no watch may be under way.
  void start();
  // The first `count` buckets are final, and nobody but `reduce` touches them until finish() has returned.
  void ready(size_t count);
  // Waits until all buckets are reduced, or one failed. Call it once, after ready() of all buckets. Throws what `reduce`
  // threw.
  CollectiveResult<void> finish();

 private:
  void run();
  CollectiveResult<void> reduce_all();
  bool wait_until_ready(size_t bucket);  // false: the object is being destroyed

  Communicator& ring_;
  const size_t buckets_;
  Reduce reduce_;
  LostPeerNotice& lost_peers_;

  std::mutex mutex_;
  std::condition_variable changed_;
  size_t ready_ = 0;
  bool abandoned_ = false;

  // Used by the thread alone until it is joined.
  CollectiveResult<void> result_;
  std::exception_ptr thrown_;
  std::thread thread_;
};

}  // namespace holdfast::worker
