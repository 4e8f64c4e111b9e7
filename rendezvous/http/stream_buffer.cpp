// Every write copies its bytes, so no call here waits but await_reader.
#include "rendezvous/http/stream_buffer.h"

#include <algorithm>

namespace holdfast::rendezvous {
namespace {

// The connection waits its patience for each piece to be taken: a slow reader takes a small one in that time.
constexpr size_t kPieceBytes = 16 << 10;
// Taken bytes are erased in strides of at least this size and of as much as waits, because each erase moves the rest.
constexpr size_t kBegunMax = 256 << 10;

}  // namespace

bool StreamBuffer::write(const std::string& chunk) {
  {
    const std::lock_guard lock(mutex_);
    if (!open_) return false;
    if (chunk.empty()) return true;
    if (unread_now() > 0 && unread_now() + chunk.size() > unread_bytes_max_) {
      open_ = false;
      cut_ = true;
      changed_.notify_all();
      forget_waiting();
    } else {
      waiting_ += chunk;
    }
  }
  wake_();
  const std::lock_guard lock(mutex_);
  return !cut_;
}

void StreamBuffer::close() {
  {
    const std::lock_guard lock(mutex_);
    if (!open_) return;
    open_ = false;
  }
  changed_.notify_all();
  wake_();
}

void StreamBuffer::abandon() {
  cut();
  wake_();
}

size_t StreamBuffer::unread() const {
  const std::lock_guard lock(mutex_);
  return unread_now();
}

bool StreamBuffer::await_reader(size_t unread_bytes) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !open_ || unread_now() <= unread_bytes; });
  return open_;
}

StreamBuffer::Taken StreamBuffer::take() {
  const std::lock_guard lock(mutex_);
  Taken taken{waiting_.substr(begun_, kPieceBytes), !open_, cut_};
  taken.ended = taken.ended && taken.bytes.empty();
  taken_ += taken.bytes.size();
  begun_ += taken.bytes.size();
  if (begun_ >= std::min(waiting_.size(), std::max(kBegunMax, waiting_.size() / 2))) {
    waiting_.erase(0, begun_);
    begun_ = 0;
  }
  return taken;
}

void StreamBuffer::sent(size_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    taken_ -= bytes;
  }
  changed_.notify_all();
}

void StreamBuffer::cut() {
  {
    const std::lock_guard lock(mutex_);
    open_ = false;
    cut_ = true;
    forget_waiting();
  }
  changed_.notify_all();
}

void StreamBuffer::forget_waiting() {
  waiting_.clear();
  begun_ = 0;
}

}  // namespace holdfast::rendezvous
