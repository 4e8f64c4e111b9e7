#include "worker/gradients/overlapped_reduction.h"

#include <utility>

#include "worker/profile/recorder.h"

namespace holdfast::worker {

OverlappedReduction::OverlappedReduction(Communicator& ring, size_t buckets, Reduce reduce, LostPeerNotice& lost_peers)
    : ring_(ring), buckets_(buckets), reduce_(std::move(reduce)), lost_peers_(lost_peers) {}

OverlappedReduction::~OverlappedReduction() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    abandoned_ = true;
  }
  changed_.notify_all();
  ring_.abort("this rank's computation of the step was broken off");
  thread_.join();
}

void OverlappedReduction::start() {
  thread_ = std::thread([this] { run(); });
}

void OverlappedReduction::ready(size_t count) {
  {
    const std::lock_guard lock(mutex_);
    ready_ = count;
  }
  changed_.notify_all();
}

CollectiveResult<void> OverlappedReduction::finish() {
  thread_.join();
  if (thrown_) std::rethrow_exception(thrown_);
  return result_;
}

void OverlappedReduction::run() {
  name_thread("reduction");
  try {
    result_ = reduce_all();
  } catch (...) {
    thrown_ = std::current_exception();
  }
}

CollectiveResult<void> OverlappedReduction::reduce_all() {
  for (size_t bucket = 0; bucket < buckets_; ++bucket) {
    if (!wait_until_ready(bucket)) return {};
    auto reduced = [&] {
      const Span span(SpanKind::kBucket, "bucket", static_cast<int64_t>(bucket));
      return reduce_(bucket);
    }();
    if (reduced) continue;
    if (reduced.error().kind != CollectiveError::Kind::kAborted) lost_peers_.tell(reduced.error());
    return reduced;
  }
  return {};
}

bool OverlappedReduction::wait_until_ready(size_t bucket) {
  const Span span(SpanKind::kWait, "wait for gradients");
  std::jthread watch;  // ends after the lock is let go: telling of a lost peer may take a while
  std::unique_lock lock(mutex_);
  const auto may_go_on = [&] { return abandoned_ || ready_ > bucket; };
  if (!may_go_on()) watch = ring_.watch([this](const CollectiveError& error) { lost_peers_.tell(error); });
  changed_.wait(lock, may_go_on);
  return !abandoned_;
}

}  // namespace holdfast::worker
