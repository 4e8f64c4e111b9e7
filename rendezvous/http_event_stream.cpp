// A streamed reply. The buffer copies what is written at once, so no call here waits.
#include "rendezvous/http_event_stream.h"

namespace holdfast::rendezvous {

bool BufferedEventStream::write(const std::string& chunk) {
  const std::lock_guard lock(mutex_);
  if (!open_) return false;
  if (chunk.empty()) return true;  // an empty piece would end the reply
  if (buffer_.in_avail() + chunk.size() > unread_bytes_max_) {
    open_ = false;
    const auto slow = std::make_exception_ptr(std::runtime_error("the reader is too slow"));
    buffer_.close(std::ios_base::out, slow);
    buffer_.close(std::ios_base::in, slow);
    return false;
  }
  buffer_.putn_nocopy(reinterpret_cast<const uint8_t*>(chunk.data()), chunk.size());
  buffer_.sync();  // hands over a piece that is smaller than what the reader asked for
  return true;
}

void BufferedEventStream::close() {
  const std::lock_guard lock(mutex_);
  if (open_) buffer_.close(std::ios_base::out);
  open_ = false;
}

void BufferedEventStream::cut() {
  const std::lock_guard lock(mutex_);
  buffer_.close(std::ios_base::out);
  buffer_.close(std::ios_base::in);
  open_ = false;
}

}  // namespace holdfast::rendezvous
