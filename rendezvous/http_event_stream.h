// The writer's end of a streamed reply: a bounded buffer that the connection empties as fast as the reader reads.
//
// Thread: any thread writes and closes; the rest on the connection's strand. Part of the server, for http_*.cpp alone.
#pragma once

#include <functional>
#include <mutex>
#include <string>

#include "rendezvous/http_server.h"

namespace holdfast::rendezvous {

class BufferedEventStream : public EventStream {
 public:
  // `wake` is called, on whichever thread, when there is something for take(): it must not call back.
  BufferedEventStream(size_t unread_bytes_max, std::function<void()> wake)
      : unread_bytes_max_(unread_bytes_max), wake_(std::move(wake)) {}

  bool write(const std::string& chunk) override;
  void close() override;
  size_t unread() const override;

  struct Taken {
    std::string bytes;  // a piece, to be sent now; empty: nothing is there yet, unless one of the next two is true
    bool ended = false, cut = false;
  };
  Taken take();
  void sent(size_t bytes);  // of what was taken
  void cut();               // the reader is gone: nothing more is kept

 private:
  void forget_waiting();

  const size_t unread_bytes_max_;
  const std::function<void()> wake_;
  mutable std::mutex mutex_;
  std::string waiting_;
  size_t begun_ = 0;  // so much of what waits was taken
  size_t taken_ = 0;  // and not sent yet
  bool open_ = true, cut_ = false;
};

}  // namespace holdfast::rendezvous
