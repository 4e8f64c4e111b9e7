// A byte buffer between the writer of a streamed reply and its connection, which empties it as fast as the reader reads. It is
// bounded: a reader that falls too far behind is cut off. It knows nothing of events; api/feeds/followers.h makes them.
//
// Thread: any thread writes and closes; the rest on the connection's strand. Part of the server, for this folder alone.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>

#include "rendezvous/http/server.h"

namespace holdfast::rendezvous {

class StreamBuffer : public EventStream {
 public:
  // `wake` is called, on any thread, when there is something for take(). It must not call this object.
  StreamBuffer(size_t unread_bytes_max, std::function<void()> wake)
      : unread_bytes_max_(unread_bytes_max), wake_(std::move(wake)) {}

  bool write(const std::string& chunk) override;
  void close() override;
  void abandon() override;
  size_t unread() const override;
  bool await_reader(size_t unread_bytes) override;

  struct Taken {
    std::string bytes;   // to be sent now; empty: nothing was written yet, or one of the next two is true
    bool ended = false;  // closed, and everything was taken
    bool cut = false;    // the reader is to be cut off
  };
  Taken take();
  void sent(size_t bytes);  // so many of the taken bytes were sent
  void cut();               // the reader is gone: drops everything, now and later

 private:
  void forget_waiting();
  size_t unread_now() const { return waiting_.size() - begun_ + taken_; }  // with the mutex

  const size_t unread_bytes_max_;
  const std::function<void()> wake_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;  // less is unread, or open_ is false
  std::string waiting_;
  size_t begun_ = 0;  // bytes at the front of waiting_ that were taken
  size_t taken_ = 0;  // bytes that were taken and are not sent yet
  bool open_ = true, cut_ = false;
};

}  // namespace holdfast::rendezvous
