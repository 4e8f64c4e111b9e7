// The writer's end of a streamed reply: a bounded buffer that the server drains as fast as the reader reads.
//
// Thread: any thread writes; the server's threads read. Part of the server, for http_server.cpp alone.
#pragma once

#include <cpprest/producerconsumerstream.h>
#include <cpprest/streams.h>

#include <atomic>
#include <mutex>

#include "rendezvous/http_server.h"

namespace holdfast::rendezvous {

class BufferedEventStream : public EventStream {
 public:
  explicit BufferedEventStream(size_t unread_bytes_max) : unread_bytes_max_(unread_bytes_max) {}
  ~BufferedEventStream() override { close(); }

  bool write(const std::string& chunk) override;
  void close() override;
  void cut();  // as close, and what is unread is dropped

  // What the server reads from.
  concurrency::streams::istream reader() { return buffer_.create_istream(); }

 private:
  const size_t unread_bytes_max_;
  std::mutex mutex_;
  bool open_ = true;
  concurrency::streams::producer_consumer_buffer<uint8_t> buffer_;
};

}  // namespace holdfast::rendezvous
