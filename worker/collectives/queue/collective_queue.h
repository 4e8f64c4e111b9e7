// The collectives of one step, one after the other on a thread of their own, while the train thread computes.
//
// Between start() and the return of finish() the ring belongs to that thread. While it has nothing to do it watches the
// neighbours' connections.
// Promises: collectives run in the order in which they were added, which must be that of every rank; a lost neighbour is told
// of when it is noticed, without waiting for the train thread, and once; none runs after one that failed. An object that is
// destroyed unfinished aborts the ring, because what is missing of the step can never come: its thread ends at once.
// Thread: one thread makes it, starts it, adds, awaits and finishes; collectives and the notice of lost peers run on others.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

#include "worker/collectives/communicator.h"
#include "worker/collectives/queue/lost_peer_notice.h"

namespace holdfast::worker {

class CollectiveQueue {
 public:
  using Collective = std::function<CollectiveResult<void>()>;
  // `ring` and `lost_peers` outlive it.
  CollectiveQueue(Communicator& ring, LostPeerNotice& lost_peers);
  ~CollectiveQueue();
  CollectiveQueue(const CollectiveQueue&) = delete;
  CollectiveQueue& operator=(const CollectiveQueue&) = delete;

  // No collective and no watch may be under way.
  void start();
  // Nobody but `collective` touches what it reads and writes until it was awaited. `name`, a literal, and `which` are for the
  // profile. Returns its number: 1, 2 and so on.
  size_t add(Collective collective, const char* name, int64_t which = -1);
  // Waits until that many are done. Throws RingFailed if one of them failed, or what it threw.
  void await(size_t number);
  // Waits until all are done, or one failed. Call it once. Throws what a collective threw.
  CollectiveResult<void> finish();

 private:
  struct Added {
    Collective collective;
    const char* name;
    int64_t which;
  };
  void run();
  bool take(Added& next);  // false: there will be no more

  Communicator& ring_;
  LostPeerNotice& lost_peers_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Added> added_;
  size_t numbered_ = 0, done_ = 0;
  bool complete_ = false;  // none will be added
  bool ended_ = false;     // the thread does no more
  CollectiveResult<void> result_;
  std::exception_ptr thrown_;
  std::thread thread_;
};

}  // namespace holdfast::worker
