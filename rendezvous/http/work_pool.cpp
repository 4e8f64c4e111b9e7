#include "rendezvous/http/work_pool.h"

#include <exception>
#include <optional>
#include <utility>

namespace holdfast::rendezvous {

WorkPool::WorkPool(int threads, size_t queue_max) : queue_max_(queue_max) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
}

WorkPool::~WorkPool() {
  finish();
}

void WorkPool::finish() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

bool WorkPool::post(std::function<void()> work, Failed failed) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_ || queue_.size() >= queue_max_) return false;
    queue_.push_back({std::move(work), std::move(failed)});
  }
  changed_.notify_one();
  return true;
}

void WorkPool::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    std::optional<Job> job = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    try {
      job->work();
    } catch (const std::exception& error) {  // for example bad_alloc for a large object
      job->failed(error.what());
    }
    job.reset();  // its captures are destroyed without the lock
    lock.lock();
  }
}

}  // namespace holdfast::rendezvous
