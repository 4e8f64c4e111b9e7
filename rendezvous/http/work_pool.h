// A few threads for work that blocks, which handlers may not: reading, writing and verifying objects and chunks.
//
// Promises: pieces of work start in the order in which they came; finish() and the destructor run the queued ones and return
// when all are done. An exception goes to the `failed` of its work, on the same thread, and harms no other work.
// Refuses: more than `queue_max` waiting pieces (post() returns false; the caller answers 503).
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace holdfast::rendezvous {

class WorkPool {
 public:
  WorkPool(int threads, size_t queue_max);
  ~WorkPool();
  WorkPool(const WorkPool&) = delete;

  using Failed = std::function<void(const std::string& why)>;  // does not throw
  bool post(std::function<void()> work, Failed failed);
  void finish();  // the same as the destructor, earlier

 private:
  void work();

  const size_t queue_max_;
  std::mutex mutex_;
  std::condition_variable changed_;
  struct Job {
    std::function<void()> work;
    Failed failed;
  };
  std::deque<Job> queue_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace holdfast::rendezvous
