// One kept HTTP/1.1 connection that does not block: a request at a time, and its answer when it has come.
//
// Promises: each send() is answered exactly once while the connection lives, with status 0 when no whole answer came. A
// connection that has ended is made again with the next request.
// Refuses: answers without a length (chunked ones). This service sends none to workers.
// Thread: the loop's.
#pragma once

#include <netinet/in.h>

#include <functional>
#include <string>

#include "bench/service_load/event_loop.h"

namespace holdfast::bench {

struct Place {
  sockaddr_in address{};
  std::string host, token;
};

struct HttpAnswer {
  int status = 0;
  std::string body;  // with status 0: why there is none
  Moment at;         // when its last byte was there
};

class HttpConnection {
 public:
  using OnAnswer = std::function<void(const HttpAnswer&)>;

  // Both outlive it.
  HttpConnection(EventLoop& loop, const Place& place) : loop_(loop), place_(place) {}
  ~HttpConnection() { disconnect(); }
  HttpConnection(const HttpConnection&) = delete;

  bool busy() const { return static_cast<bool>(on_answer_); }
  // Not while it is busy.
  void send(const std::string& method, const std::string& path, const std::string& body, OnAnswer on_answer);

 private:
  bool connect();
  void disconnect();
  void on_ready(uint32_t events);
  void write_some();
  void read_some();
  bool answer_is_whole(HttpAnswer& answer) const;
  void finish(HttpAnswer answer);
  void fail(const std::string& why_not);

  EventLoop& loop_;
  const Place& place_;
  int socket_ = -1;
  std::string out_, in_;
  OnAnswer on_answer_;
};

}  // namespace holdfast::bench
