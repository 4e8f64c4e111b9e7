// The reduction of one step, bucket after bucket on a thread of its own, while the train thread computes what comes later.
//
// Between start() and the return of finish() the ring belongs to that thread. While it has no bucket to reduce it watches the
// neighbours' connections. Promises: buckets are reduced in their order, as every rank must; a loss is told of when it is
// noticed, without waiting for the train thread, and each neighbour's once; a failure ends the reduction, and finish() returns
// it. An object that goes away unfinished aborts the ring, as the buckets that are missing can never be reduced: its thread
// ends at once. Thread: one makes it, starts it, says what is ready and finishes it; `reduce` and what is told of losses run on
// others.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

#include "worker/collectives/communicator.h"
#include "worker/loss_teller.h"

namespace holdfast::worker {

class OverlappedReduction {
 public:
  using Reduce = std::function<CollectiveResult<void>(size_t bucket)>;
  // `ring` and `losses` outlive it.
  OverlappedReduction(Communicator& ring, size_t buckets, Reduce reduce, LossTeller& losses);
  ~OverlappedReduction();
  OverlappedReduction(const OverlappedReduction&) = delete;
  OverlappedReduction& operator=(const OverlappedReduction&) = delete;

  // No collective and no watch may be under way.
  void start();
  // The first `count` buckets are final, and nobody but `reduce` touches them until finish() has returned.
  void ready(size_t count);
  // Waits until all buckets are reduced, or one failed. All have been said to be ready; once. Throws what `reduce` threw.
  CollectiveResult<void> finish();

 private:
  void run();
  CollectiveResult<void> reduce_all();
  bool wait_until_ready(size_t bucket);  // false: the object goes away

  Communicator& ring_;
  const size_t buckets_;
  Reduce reduce_;
  LossTeller& losses_;

  std::mutex mutex_;
  std::condition_variable changed_;
  size_t ready_ = 0;
  bool abandoned_ = false;

  // Of the thread, until it is joined.
  CollectiveResult<void> result_;
  std::exception_ptr thrown_;
  std::thread thread_;
};

}  // namespace holdfast::worker
