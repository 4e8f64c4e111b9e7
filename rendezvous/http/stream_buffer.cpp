// Every write copies its bytes, so no call here waits.
#include "rendezvous/http/stream_buffer.h"

namespace holdfast::rendezvous {
namespace {

// The connection waits its patience for each piece to be taken: a slow reader takes a small one in that time.
constexpr size_t kPieceBytes = 16 << 10;
constexpr size_t kBegunMax = 256 << 10;  // taken bytes are erased in strides of this size, because each erase moves the rest

}  // namespace

bool StreamBuffer::write(const std::string& chunk) {
  {
    const std::lock_guard lock(mutex_);
    if (!open_) return false;
    if (chunk.empty()) return true;
    if (waiting_.size() - begun_ + taken_ + chunk.size() > unread_bytes_max_) {
      open_ = false;
      cut_ = true;
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
  wake_();
}

size_t StreamBuffer::unread() const {
  const std::lock_guard lock(mutex_);
  return waiting_.size() - begun_ + taken_;
}

StreamBuffer::Taken StreamBuffer::take() {
  const std::lock_guard lock(mutex_);
  Taken taken{waiting_.substr(begun_, kPieceBytes), !open_, cut_};
  taken.ended = taken.ended && taken.bytes.empty();
  taken_ += taken.bytes.size();
  begun_ += taken.bytes.size();
  if (begun_ == waiting_.size() || begun_ >= kBegunMax) {
    waiting_.erase(0, begun_);
    begun_ = 0;
  }
  return taken;
}

void StreamBuffer::sent(size_t bytes) {
  const std::lock_guard lock(mutex_);
  taken_ -= bytes;
}

void StreamBuffer::cut() {
  const std::lock_guard lock(mutex_);
  open_ = false;
  cut_ = true;
  forget_waiting();
}

void StreamBuffer::forget_waiting() {
  waiting_.clear();
  begun_ = 0;
}

}  // namespace holdfast::rendezvous
