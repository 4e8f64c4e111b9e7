// A streamed reply: what is written is copied at once, so no call here waits.
#include "rendezvous/http_event_stream.h"

namespace holdfast::rendezvous {

bool BufferedEventStream::write(const std::string& chunk) {
  {
    const std::lock_guard lock(mutex_);
    if (!open_) return false;
    if (chunk.empty()) return true;
    if (waiting_.size() + taken_ + chunk.size() > unread_bytes_max_) {
      open_ = false;
      cut_ = true;
      waiting_.clear();
    } else {
      waiting_ += chunk;
    }
  }
  wake_();
  const std::lock_guard lock(mutex_);
  return !cut_;
}

void BufferedEventStream::close() {
  {
    const std::lock_guard lock(mutex_);
    if (!open_) return;
    open_ = false;
  }
  wake_();
}

size_t BufferedEventStream::unread() const {
  const std::lock_guard lock(mutex_);
  return waiting_.size() + taken_;
}

BufferedEventStream::Taken BufferedEventStream::take() {
  const std::lock_guard lock(mutex_);
  Taken taken{std::exchange(waiting_, {}), !open_, cut_};
  taken_ += taken.bytes.size();
  taken.ended = taken.ended && taken.bytes.empty();
  return taken;
}

void BufferedEventStream::sent(size_t bytes) {
  const std::lock_guard lock(mutex_);
  taken_ -= bytes;
}

void BufferedEventStream::cut() {
  const std::lock_guard lock(mutex_);
  open_ = false;
  cut_ = true;
  waiting_.clear();
}

}  // namespace holdfast::rendezvous
