#include "worker/collectives/queue/collective_queue.h"

#include <utility>

#include "worker/profile/recorder.h"

namespace holdfast::worker {

CollectiveQueue::CollectiveQueue(Communicator& ring, LostPeerNotice& lost_peers) : ring_(ring), lost_peers_(lost_peers) {}

CollectiveQueue::~CollectiveQueue() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    complete_ = true;
    added_.clear();
  }
  changed_.notify_all();
  ring_.abort("this rank's computation of the step was broken off");
  thread_.join();
}

void CollectiveQueue::start() {
  thread_ = std::thread([this] { run(); });
}

size_t CollectiveQueue::add(Collective collective, const char* name, int64_t which) {
  size_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    added_.push_back({std::move(collective), name, which});
    number = ++numbered_;
  }
  changed_.notify_all();
  return number;
}

void CollectiveQueue::await(size_t number) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return ended_ || done_ >= number; });
  if (done_ >= number) return;
  if (thrown_) std::rethrow_exception(thrown_);
  throw RingFailed{result_.error()};
}

CollectiveResult<void> CollectiveQueue::finish() {
  {
    const std::lock_guard lock(mutex_);
    complete_ = true;
  }
  changed_.notify_all();
  thread_.join();
  if (thrown_) std::rethrow_exception(thrown_);
  return result_;
}

void CollectiveQueue::run() {
  name_thread("reduction");
  CollectiveResult<void> result;
  std::exception_ptr thrown;
  for (Added next; take(next);) {
    try {
      const Span span(SpanKind::kBucket, next.name, next.which);
      result = next.collective();
    } catch (...) {
      thrown = std::current_exception();
    }
    if (thrown || !result) break;
    {
      const std::lock_guard lock(mutex_);
      ++done_;
    }
    changed_.notify_all();
  }
  {
    const std::lock_guard lock(mutex_);
    result_ = result;
    thrown_ = thrown;
    ended_ = true;
  }
  changed_.notify_all();
  if (!result && result.error().kind != CollectiveError::Kind::kAborted) lost_peers_.tell(result.error());
}

bool CollectiveQueue::take(Added& next) {
  const Span span(SpanKind::kWait, "wait for gradients");
  std::jthread watch;  // ends after the lock is let go: telling of a lost peer may take a while
  std::unique_lock lock(mutex_);
  const auto may_go_on = [&] { return complete_ || !added_.empty(); };
  if (!may_go_on()) watch = ring_.watch([this](const CollectiveError& error) { lost_peers_.tell(error); });
  changed_.wait(lock, may_go_on);
  if (added_.empty()) return false;
  next = std::move(added_.front());
  added_.pop_front();
  return true;
}

}  // namespace holdfast::worker
